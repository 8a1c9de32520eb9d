"""Figures and bars: data in, geometry and Plotly JSON out. Reads nothing by itself."""
