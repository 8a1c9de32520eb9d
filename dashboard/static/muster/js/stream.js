// One live stream: reads server-sent events by fetch (so that the heartbeat comment is seen too), reconnects with
// back-off and jitter, and tells its owner `up`, `down` and `event`. It asks for what was told since it last heard
// anything, at first since the page was asked for: a page is older than its stream.

const SILENT_MS = 40000;

export class Stream {
  constructor(url, { up, down, event }) {
    Object.assign(this, { url, up, down, event, tries: 0, heard: 0, abort: null, timer: 0, closed: true });
  }

  open() {
    if (!this.closed) return;
    this.closed = false;
    this.run();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  async run() {
    this.abort = new AbortController();
    let watch = 0;
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(() => this.abort.abort(), SILENT_MS);
    };
    try {
      alive();
      const answer = await fetch(`${this.url}?age=${Math.ceil(performance.now() - this.heard)}`, {
        headers: { Accept: "text/event-stream" }, cache: "no-store", signal: this.abort.signal,
      });
      if (!answer.ok) throw new Error(String(answer.status));
      await this.read(answer.body.getReader(), alive);
    } catch {
      // Whatever it was: the same next step.
    } finally {
      clearTimeout(watch);
    }
    if (this.closed) return;
    this.down();
    const pause = Math.min(15000, 1000 * 2 ** this.tries) * (0.5 + Math.random());
    this.tries += 1;
    this.timer = setTimeout(() => this.run(), pause);
  }

  async read(reader, alive) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      this.heard = performance.now();
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.block(block);
    }
  }

  block(text) {
    let name = "message", data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (name === "hello") {
      this.tries = 0;
      this.up();
    } else if (data) {
      this.event(name, JSON.parse(data));
    }
  }
}
