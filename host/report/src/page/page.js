"use strict";
(async () => {
  const content = (id) => document.getElementById(id).textContent;
  const packed = Uint8Array.from(atob(content("plotly")), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const library = document.createElement("script");
  library.textContent = await new Response(unpacked).text();
  document.head.append(library);

  // Colours of figures on white, and their replacements on a dark page.
  const darker = {
    "#fff": "#15181c", white: "#15181c", "#000": "#e6e6e6", "#000000": "#e6e6e6", "#1a1a1a": "#e6e6e6",
    "#333": "#ccc", "#555": "#a8adb4", "#bbb": "#6b737c", "#ddd": "#444b53", "#e5e5e5": "#2b3138",
    "#0072B2": "#4aa3df", "#D55E00": "#f0883e", "#009E73": "#2fc096", "#B8A900": "#d6c73a",
    // Lighter than the blue above, to be distinguishable from it.
    "#56B4E9": "#b9e3ff",
  };
  const recoloured = (value) => {
    if (typeof value === "string") return darker[value] ?? value;
    if (Array.isArray(value)) return value.map(recoloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, recoloured(inner)]));
  };
  const common = {
    autosize: true,
    font: { family: "system-ui, 'DejaVu Sans', sans-serif", size: 12, color: "#1a1a1a" },
    hovermode: "closest",
    legend: { orientation: "h", yanchor: "top" },
    margin: { l: 72, r: 20, t: 32, b: 50 },
    paper_bgcolor: "#fff",
    plot_bgcolor: "#fff",
    modebar: { color: "#bbb", activecolor: "#555", bgcolor: "rgba(0,0,0,0)" },
  };

  // Places as many names next to points as possible, without overlaps between names and not over many points.
  const pen = document.createElement("canvas").getContext("2d");
  const size = 11;
  const named = (plot) => {
    const { xaxis, yaxis, meta, font } = plot._fullLayout;
    pen.font = `${size}px ${font.family}`;
    const shown = plot._fullData.map((trace) => trace.visible === true);
    const spots = meta.labels.filter(({ group }) => shown[group]);
    const at = ({ x, y, text }) => [xaxis.d2p(x), yaxis.d2p(y), pen.measureText(text).width];
    const points = spots.map(at);
    const taken = [];
    const annotations = [];
    spots.forEach((spot, own) => {
      const [x, y, width] = points[own];
      const gap = 6;
      const places = [[x + gap, y - size / 2], [x - gap - width, y - size / 2],
        [x - width / 2, y - gap - size], [x - width / 2, y + gap]];
      let best = null;
      for (const [left, top] of places) {
        const box = { left: left - 2, right: left + width + 2, top: top - 1, bottom: top + size + 2 };
        const inside = box.left >= 0 && box.top >= 0 && box.right <= xaxis._length && box.bottom <= yaxis._length;
        const free = (other) => box.right < other.left || other.right < box.left || box.bottom < other.top || other.bottom < box.top;
        if (!inside || !taken.every(free)) continue;
        const hidden = points.filter(([px, py], other) =>
          other !== own && px > box.left - 3 && px < box.right + 3 && py > box.top - 3 && py < box.bottom + 3).length;
        if (hidden <= 1 && (best === null || hidden < best.hidden)) best = { box, hidden, left, top };
      }
      if (best === null) return;
      taken.push(best.box);
      annotations.push({
        x: spot.x, y: spot.y, text: spot.text, showarrow: false, captureevents: false, font: { size },
        xanchor: "left", yanchor: "top", xshift: best.left - x, yshift: y - best.top, borderpad: 0,
      });
    });
    return annotations;
  };

  const figures = JSON.parse(content("figures"));
  const night = matchMedia("screen and (prefers-color-scheme: dark)");
  // Paper has the size of A4 without margins. Two figures with their captions fit on a sheet.
  const sheet = { width: 680, plot: 360, whole: 900 };
  // Small plots in rows of four are square: their height follows their width in the window.
  const high = (id, { height, layout }, paper) => {
    const rows = layout.meta?.rows;
    const width = paper ? sheet.width : document.getElementById(id).clientWidth;
    const needed = rows === undefined ? height : Math.min(height, 40 + rows * (width / 4 + 24));
    return paper ? Math.min(needed, rows === undefined ? sheet.plot : sheet.whole) : needed;
  };
  // Moves the legend below the title of the axis. Plotly measures its distance from the plot in heights of the plot, which
  // depend on the number of lines of the legend.
  const lower = async (plot) => {
    const { height, margin, showlegend, legend } = plot._fullLayout;
    if (!showlegend) return;
    const title = 60;
    const data = height - margin.t - title - legend._height;
    await Plotly.relayout(plot, { "legend.y": -title / Math.max(data, title) });
  };
  const onPaper = (layout) => ({
    ...layout, autosize: false, width: sheet.width, font: { ...common.font, size: 10 },
    ...(layout.xaxis?.rangeslider && { xaxis: { ...layout.xaxis, rangeslider: { visible: false } } }),
  });
  const draw = async ({ id, data, layout, ...figure }, dark, paper) => {
    const height = high(id, { ...figure, layout }, paper);
    document.getElementById(id).style.height = `${height}px`;
    const config = {
      displaylogo: false,
      displayModeBar: true,
      modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
      responsive: true,
      toImageButtonOptions: { format: "svg", filename: id },
    };
    const legend = { ...common.legend, ...layout.legend };
    const around = { ...common, ...layout, legend, height };
    const whole = { data, layout: paper ? onPaper(around) : around };
    const shown = structuredClone(dark ? recoloured(whole) : whole);
    const plot = await Plotly.react(id, shown.data, shown.layout, config);
    if (layout.legend?.y === undefined) await lower(plot);
  };
  const drawAll = (dark, paper) => Promise.all(figures.map((figure) => draw(figure, dark, paper)));
  await drawAll(night.matches, false);
  for (const { id } of figures.filter(({ layout }) => layout.meta?.labels)) {
    const plot = document.getElementById(id);
    const label = () => {
      const annotations = named(plot);
      if (JSON.stringify(annotations) !== JSON.stringify(plot.layout.annotations ?? [])) {
        Plotly.relayout(plot, { annotations });
      }
    };
    plot.on("plotly_afterplot", label);
    label();
  }
  night.addEventListener("change", () => drawAll(night.matches, false));

  // Printed pages always use the light colours.
  addEventListener("beforeprint", () => drawAll(false, true));
  addEventListener("afterprint", () => drawAll(night.matches, false));
  document.documentElement.dataset.drawn = String(figures.length);
})().catch((error) => {
  const text = document.createElement("p");
  text.className = "failure";
  text.textContent = `The figures cannot be drawn: ${error}`;
  document.querySelector("main").prepend(text);
  console.error(error);
});
