// Starts what every page has. Each part finds its own elements and does nothing where there are none.
import "./times.js";
import "./frame.js";
import "./live.js";
import "./map.js";
import "./use.js";
