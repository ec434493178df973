"use strict";
(async () => {
  const content = (id) => document.getElementById(id).textContent;
  const packed = Uint8Array.from(atob(content("plotly")), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const library = document.createElement("script");
  library.textContent = await new Response(unpacked).text();
  document.head.append(library);

  const common = {
    autosize: true,
    font: { family: "system-ui, 'DejaVu Sans', sans-serif", size: 12, color: "#1a1a1a" },
    hovermode: "closest",
    legend: { orientation: "h", y: -0.18, yanchor: "top" },
    margin: { l: 60, r: 20, t: 32, b: 50 },
    paper_bgcolor: "#fff",
    plot_bgcolor: "#fff",
  };
  const figures = JSON.parse(content("figures"));
  for (const { id, data, layout, height } of figures) {
    const config = {
      displaylogo: false,
      displayModeBar: true,
      modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
      responsive: true,
      toImageButtonOptions: { format: "svg", filename: id },
    };
    await Plotly.newPlot(id, data, { ...common, ...layout, height }, config);
  }

  // On paper, figures are as wide as an A4 page between its margins.
  const printed = { width: 680 };
  addEventListener("beforeprint", () => {
    for (const { id } of figures) Plotly.relayout(id, printed);
  });
  addEventListener("afterprint", () => {
    for (const { id } of figures) Plotly.relayout(id, { width: null, autosize: true });
  });
  document.documentElement.dataset.drawn = String(figures.length);
})().catch((error) => {
  const text = document.createElement("p");
  text.className = "failure";
  text.textContent = `The figures cannot be drawn: ${error}`;
  document.querySelector("main").prepend(text);
  console.error(error);
});
