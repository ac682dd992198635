/* Draws the plots of a report, sorts and filters its tables, and moves what depends on xi.
   Texts of the data reach the page as text nodes and attributes only. Without this script all numbers are in tables. */
(function () {
  "use strict";

  const NS = "http://www.w3.org/2000/svg";
  const island = document.getElementById("report-data");
  const charts = island ? JSON.parse(island.textContent).charts : {};
  const live = document.getElementById("live");
  const PRINTED = 690; // width of a page of paper, in pixels
  const TEXT = 6.7; // width of a letter
  const LEAST = 0.0005; // smaller gains are shown as 0
  let printing = false;

  /* ---------- elements ---------- */

  function set(node, attributes) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    return node;
  }
  function el(tag, attributes, ...inside) {
    const node = set(document.createElement(tag), attributes);
    node.append(...inside.filter((part) => part !== null && part !== undefined));
    return node;
  }
  function svg(parent, tag, attributes, text) {
    const node = set(document.createElementNS(NS, tag), attributes);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }
  const clear = (node) => node.replaceChildren();
  const isolated = (text) => "\u2068" + text + "\u2069"; // the direction of a name stays its own
  function shortened(text, most) {
    const letters = Array.from(text);
    if (letters.length <= most) return text;
    const keep = Math.max(most - 1, 2);
    return letters.slice(0, Math.ceil(keep * 0.6)).join("") + "\u2026" + letters.slice(letters.length - Math.floor(keep * 0.4)).join("");
  }

  /* ---------- numbers ---------- */

  const known = (value) => typeof value === "number" && isFinite(value);
  const minus = (text) => text.replace("-", "\u2212");
  function number(value, digits = 3) {
    if (!known(value)) return "\u2013";
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value)));
    if (size < -4) return minus(value.toExponential(digits - 1));
    const [whole, part] = Math.abs(value).toFixed(Number.isInteger(value) ? 0 : Math.max(0, digits - 1 - size)).split(".");
    const grouped = Math.abs(value) >= 10000 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
    return (value < 0 ? "\u2212" : "") + grouped + (part ? "." + part : "");
  }
  function signed(value) {
    if (!known(value)) return "\u2013";
    const text = value.toFixed(Math.abs(value) < 10 ? 3 : 1);
    return Number(text) === 0 ? "0.000" : (value > 0 ? "+" : "") + minus(text);
  }
  function percent(value) { // only a whole is 100%
    if (!known(value)) return "\u2013";
    if (value >= 0.9995 && value < 1) return "> 99.9%";
    return (100 * value).toFixed((Math.abs(value) < 0.1 && value !== 0) || (value > 0.99 && value < 1) ? 1 : 0) + "%";
  }
  const strength = (xi) => (xi === null ? "\u221e" : minus(String(Number(xi.toPrecision(3)))));
  const FORMATS = { signed, number, percent };
  const between = (lower, upper, show) => (known(lower) && known(upper) ? show(lower) + " to " + show(upper) : null);
  const extent = (values) => [Math.min(...values), Math.max(...values)];
  function quantile(values, share) {
    const own = values.filter(known).sort((a, b) => a - b);
    if (!own.length) return NaN;
    const at = (own.length - 1) * share, low = Math.floor(at);
    return own[low] + (at - low) * (own[Math.min(low + 1, own.length - 1)] - own[low]);
  }

  /* ---------- scales ---------- */

  function ticks(low, high, count) {
    const rough = (high - low) / Math.max(count, 1) || 1;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((one) => one >= rough * 0.999);
    const made = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) made.push(Number((k * step).toPrecision(12)));
    return made;
  }
  function tickLabels(values, format) {
    const step = values.length > 1 ? Math.abs(values[1] - values[0]) : 1;
    const scale = format === "percent" ? 100 : 1;
    let places = 0;
    while (places < 6 && Math.abs(step * scale * Math.pow(10, places) - Math.round(step * scale * Math.pow(10, places))) > 1e-6) places++;
    return values.map((value) => {
      const size = (value * scale).toFixed(places);
      const text = Math.abs(value) >= 10000 ? number(value, 15) : minus(size);
      return (format === "signed" && value > 0 ? "+" : "") + text + (format === "percent" ? "%" : "");
    });
  }
  function linear([low, high], [from, to]) {
    const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
    scale.domain = [low, high];
    scale.ticks = (count) => ticks(low, high, count);
    return scale;
  }
  /* Linear near 0 and logarithmic beyond: for gains of which a few are far larger than most. */
  function signedLog([low, high], range, unit) {
    const bend = (value) => Math.sign(value) * Math.log1p(Math.abs(value) / unit);
    const inner = linear([bend(low), bend(high)], range);
    const scale = (value) => inner(bend(value));
    scale.domain = [low, high];
    scale.bent = true;
    scale.ticks = () => {
      const made = [0];
      for (let power = Math.floor(Math.log10(unit)); power < 7; power++) {
        for (const value of [Math.pow(10, power), 3 * Math.pow(10, power)]) {
          if (value < unit) continue;
          if (value <= high) made.push(Number(value.toPrecision(3)));
          if (-value >= low) made.unshift(-Number(value.toPrecision(3)));
        }
      }
      return made;
    };
    return scale;
  }
  /* The scale that suits: logarithmic where the largest value is more than twelve times as large as most. */
  const heading = (label, scale, width) => (scale.bent ? (width < 520 ? label.replace(/ over .*/, "") : label) + ", logarithmic away from 0" : label);
  function fitting(values, domain, range) {
    const sizes = values.map(Math.abs).filter((size) => size > 0), typical = quantile(sizes, 0.75);
    return typical > 0 && Math.max(...sizes) > 12 * typical ? signedLog(domain, range, typical / 2) : linear(domain, range);
  }
  const notTiny = ([low, high]) => [Math.min(low, -4 * LEAST), Math.max(high, 4 * LEAST)]; // differences that round to 0 do not fill a plot
  function padded([low, high], share = 0.05) {
    const more = (high - low || Math.abs(high) || 1) * share;
    return [low - more, high + more];
  }

  /* ---------- frames, axes, keys, tips ---------- */

  const widthOf = (host) => (printing ? printedWidth(host) : host.clientWidth || 640);
  function printedWidth(host) {
    const grid = host.closest(".panels, .advice"), columns = grid ? Math.min(grid.children.length, grid.matches(".panels") ? 3 : 2) : 1;
    return PRINTED / columns - (columns > 1 ? 16 : 0) - (host.closest(".advice") ? 30 : 0);
  }

  function frame(host, height, label) {
    const width = Math.max(widthOf(host), 200);
    const root = svg(null, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    host.append(root);
    return { root, width, height };
  }
  const bentLabels = (at, format) => at.map((v) => (format === "signed" && v > 0 ? "+" : "") + minus(String(v)));
  function axisBottom(root, scale, { from, to, top, bottom, label, format = "number", count, labels }) {
    const room = to - from;
    const at = labels ? labels.map((one) => one[0]) : scale.ticks(count || Math.max(3, Math.floor(room / 90)));
    const words = labels ? labels.map((one) => one[1]) : scale.bent ? bentLabels(at, format) : tickLabels(at, format);
    let last = -Infinity;
    at.forEach((value, k) => {
      const x = scale(value);
      if (x < from - 1 || x > to + 1) return;
      svg(root, "line", { x1: x, x2: x, y1: top, y2: bottom, class: "grid" });
      const half = (words[k].length * TEXT) / 2;
      if (x - half < last + 6) return;
      last = x + half;
      svg(root, "text", { x, y: bottom + 16, "text-anchor": "middle", class: "soft" }, words[k]);
    });
    if (!label) return;
    const fits = shortened(label, Math.floor(to / 6.6)), half = (Array.from(fits).length * 6.4) / 2;
    svg(root, "text", { x: Math.min((from + to) / 2, to + 8 - half), y: bottom + 35, "text-anchor": "middle", class: "soft" }, fits);
  }
  function axisLeft(root, scale, { left, right, label, format = "number", count = 5, names = true }) {
    const at = scale.ticks(count), words = scale.bent ? bentLabels(at, format) : tickLabels(at, format);
    let last = Infinity;
    at.forEach((value, k) => {
      const y = scale(value);
      svg(root, "line", { x1: left, x2: right, y1: y, y2: y, class: "grid" });
      if (!names || (scale.bent && Math.abs(y - last) < 13)) return;
      last = y;
      svg(root, "text", { x: left - 7, y: y + 4, "text-anchor": "end", class: "soft" }, words[k]);
    });
    if (label) svg(root, "text", { x: 0, y: 11, class: "soft" }, shortened(label, Math.floor(right / 6)));
  }
  function key(host, entries) {
    const list = el("ul", { class: "key" });
    for (const { name, colour, look = "dot" } of entries) {
      const icon = svg(null, "svg", { width: look.line ? 34 : 22, viewBox: look.line ? "-6 0 34 12" : "0 0 22 12", height: 12, "aria-hidden": "true", class: colour });
      if (look === "line") svg(icon, "line", { x1: 1, x2: 21, y1: 6, y2: 6, class: "stroke" });
      else if (look === "dashed") svg(icon, "line", { x1: 1, x2: 21, y1: 6, y2: 6, class: "stroke dashed" });
      else if (look === "band") svg(icon, "rect", { x: 1, y: 1, width: 20, height: 10, class: "band" });
      else if (look === "whisker") svg(icon, "line", { x1: 1, x2: 21, y1: 6, y2: 6, class: "whisker" });
      else if (look.line) { svg(icon, "line", { x1: 1, x2: 21, y1: 6, y2: 6, class: `stroke ${look.line}` }); svg(icon, "path", { d: SHAPES[look.mark](11, 6, 4.6), class: "solid" }); }
      else if (look === "diamond") svg(icon, "path", { d: diamond(11, 6, 5.5), class: "fill" });
      else if (look === "tick") svg(icon, "line", { x1: 11, x2: 11, y1: 0, y2: 12, class: "stroke", "stroke-width": 3 });
      else if (look === "bar") svg(icon, "rect", { x: 1, y: 1, width: 20, height: 10, rx: 2, class: "fill", opacity: 0.8 });
      else if (look === "nominal") svg(icon, "line", { x1: 1, x2: 21, y1: 6, y2: 6, class: "nominal" });
      else svg(icon, "circle", { cx: 11, cy: 6, r: 4.5, class: look === "hollow" ? "hollow" : "fill" });
      list.append(el("li", {}, icon, name));
    }
    host.append(list);
  }
  const diamond = (x, y, r) => `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`;
  const SHAPES = {
    circle: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
    square: (x, y, r) => `M${x - r * 0.9} ${y - r * 0.9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}Z`,
    triangle: (x, y, r) => `M${x} ${y - r * 1.15}L${x + r * 1.1} ${y + r * 0.8}H${x - r * 1.1}Z`,
    diamond: (x, y, r) => diamond(x, y, r * 1.2),
  };

  const tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  document.body.append(tip);
  function showTip(lines, x, y) {
    clear(tip);
    lines.filter(Boolean).forEach((line, k) => tip.append(el(k ? "span" : "b", { dir: "auto" }, line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - box.width - 6)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 14) : y + 18) + "px";
  }
  const hideTip = () => { tip.hidden = true; };

  /* Numbers on hover, and with arrow keys once the plot has the focus. A mark is {x, y, r, tip: lines}. */
  function interactive({ root }, marks, { reach = 26, onlyX = false } = {}) {
    if (!marks.length) return;
    const ring = svg(root, "circle", { r: 8, class: "ring", visibility: "hidden" });
    set(root, { tabindex: 0, role: "group", "aria-roledescription": "plot", "aria-label": root.getAttribute("aria-label") + " Use the arrow keys to read the values." });
    let at = -1;
    function show(k, speak) {
      at = k;
      const mark = marks[k], box = root.getBoundingClientRect(), scale = box.width / root.viewBox.baseVal.width;
      set(ring, { cx: mark.x, cy: mark.y, r: (mark.r || 4) + 4, visibility: "visible" });
      const lines = typeof mark.tip === "function" ? mark.tip() : mark.tip;
      showTip(lines, box.left + mark.x * scale, box.top + mark.y * scale);
      if (speak) live.textContent = lines.filter(Boolean).join(", ");
    }
    function hide() {
      at = -1;
      ring.setAttribute("visibility", "hidden");
      hideTip();
    }
    root.addEventListener("pointermove", (event) => {
      const box = root.getBoundingClientRect(), scale = root.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = -1, least = Infinity;
      marks.forEach((mark, k) => {
        const away = onlyX ? Math.abs(mark.x - x) : Math.hypot(mark.x - x, mark.y - y) - (mark.r || 0);
        if (away < least) [best, least] = [k, away];
      });
      if (best >= 0 && least < reach) show(best, false); else hide();
    });
    root.addEventListener("pointerleave", hide);
    root.addEventListener("blur", hide);
    root.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) show(Math.max(0, Math.min(marks.length - 1, at < 0 ? (step > 0 ? 0 : marks.length - 1) : at + step)), true);
      else if (event.key === "Home") show(0, true);
      else if (event.key === "End") show(marks.length - 1, true);
      else if (event.key === "Escape") hide();
      else return;
      event.preventDefault();
    });
  }

  /* ---------- rows: a row for each name, with marks and intervals ---------- */

  function drawRows(host, spec, state = {}) {
    clear(host);
    if (spec.key) key(host, spec.key);
    const show = FORMATS[spec.format || "number"], marks = spec.rows.flatMap((row) => row.marks).filter((mark) => known(mark.v));
    if (!marks.length) return;
    const points = marks.map((mark) => mark.v).concat(known(spec.zero) ? [spec.zero] : []);
    let [low, high] = spec.domain || extent(points);
    if (!spec.domain) { // intervals beyond 1.2 times the range of the points are cut
      const reach = (high - low || Math.abs(high) || 1) * (marks.length > 1 ? 1.2 : 4);
      const ends = marks.flatMap((mark) => [mark.lo, mark.hi]).filter(known);
      [low, high] = padded([Math.min(low, Math.max(low - reach, Math.min(low, ...ends))), Math.max(high, Math.min(high + reach, Math.max(high, ...ends)))]);
    }
    if (spec.format === "signed") [low, high] = notTiny([low, high]);
    const labels = spec.rows.map((row) => row.label || "");
    const widest = Math.max(0, ...labels.map((label) => Array.from(label).length));
    const step = spec.step || 26, height = spec.rows.length * step + (spec.x_label ? 40 : 18) + 8;
    const canvas = frame(host, height, spec.label), { root, width } = canvas;
    const written = spec.rows.map((row) => (spec.letters && row.marks.length === 2 ? row.marks.map((mark) => number(mark.v)).join(" \u2192 ") : ""));
    const beside = (spec.letters || 0) * TEXT;
    const left = widest ? Math.min(widest * TEXT + 14, width * 0.42) : 12, right = width - 19 - (beside && width - left - beside > 160 ? beside : 0), top = 8, bottom = top + spec.rows.length * step;
    const x = linear([low, high], [left, right]);
    (spec.zones || []).forEach(([from, to]) => {
      const a = Math.max(x(from), left), b = Math.min(x(to), right);
      svg(root, "rect", { x: a, y: top, width: Math.max(b - a, 0), height: bottom - top, class: "zone" });
    });
    axisBottom(root, x, { from: left, to: right, top, bottom, label: spec.x_label, format: spec.format });
    if (known(spec.zero)) svg(root, "line", { x1: x(spec.zero), x2: x(spec.zero), y1: top, y2: bottom, class: "zero" });
    const found = [];
    spec.rows.forEach((row, k) => {
      const middle = top + (k + 0.5) * step, own = row.marks.filter((mark) => known(mark.v));
      if (labels[k]) {
        const text = svg(root, "text", { x: left - 9, y: middle + 4, "text-anchor": "end" }, isolated(shortened(labels[k], Math.max(4, Math.floor((left - 12) / TEXT)))));
        svg(text, "title", {}, labels[k]);
      }
      if (right < width - 19 && written[k]) svg(root, "text", { x: width - 4, y: middle + 4, "text-anchor": "end", class: "soft" }, written[k]);
      if (row.linked && own.length > 1) svg(root, "line", { x1: x(own[0].v), x2: x(own[own.length - 1].v), y1: middle, y2: middle, class: `whisker ${own[own.length - 1].c}` });
      own.forEach((mark, j) => {
        const shift = spec.spread && own.length > 1 ? (j - (own.length - 1) / 2) * Math.min(9, (step - 8) / own.length) : 0;
        const y = middle + shift, at = x(mark.v), r = mark.r || 5.5;
        if (spec.bars) svg(root, "line", { x1: x(spec.zero || 0), x2: at, y1: y, y2: y, class: `whisker ${mark.c}` });
        if (known(mark.lo) && known(mark.hi)) svg(root, "line", { x1: Math.max(left, x(mark.lo)), x2: Math.min(right, x(mark.hi)), y1: y, y2: y, class: `whisker ${mark.c}` });
        svg(root, "circle", { cx: at, cy: y, r, class: `${mark.hollow ? "hollow" : "solid"} ${mark.c} ${mark.moves ? "moves" : ""}` });
        found.push({ x: at, y, r, tip: mark.tip || [row.label, (mark.name ? mark.name + ": " : "") + show(mark.v), known(mark.lo) ? `interval ${between(mark.lo, mark.hi, show)}` : null, row.about] });
      });
    });
    if (!state.quiet) interactive(canvas, found);
  }

  /* ---------- dots: a gain for each place, ordered ---------- */

  function drawDots(host, spec) {
    clear(host);
    if (!host.chosen) host.chosen = spec.chosen || 0;
    if (spec.series.length > 1) {
      const group = el("fieldset", {}, el("legend", {}, "Strategy"));
      spec.series.forEach((one, k) => {
        const input = el("input", { type: "radio", name: host.parentNode.id + "-strategy", value: k, checked: k === host.chosen });
        input.addEventListener("change", () => {
          host.chosen = k;
          drawDots(host, spec);
          host.querySelector(`input[value="${k}"]`).focus();
          live.textContent = "Gains of " + one.name;
        });
        group.append(el("label", { class: one.c }, input, one.name));
      });
      host.append(el("div", { class: "controls" }, group));
    }
    const one = spec.series[host.chosen], places = spec.names.map((name, k) => ({ name, k, v: one.v[k], lo: one.lo[k], hi: one.hi[k] })).filter((place) => known(place.v));
    places.sort((a, b) => b.v - a.v);
    const won = places.filter((place) => place.v >= LEAST).length, lost = places.filter((place) => place.v <= -LEAST).length, called = spec.value || "gain";
    const same = places.length - won - lost, rest = same ? `, the same at ${same}` : "";
    if (!spec.value && places.length && !won && !lost) { // nothing to draw: a penalty of 0 was chosen everywhere
      host.append(el("p", { class: "note" }, `${one.about}: the same as maximum likelihood at all ${places.length} ${spec.places}.`));
      return;
    }
    if (!spec.value) host.append(el("p", { class: "note" }, `${one.about}: better at ${won} of ${places.length} ${spec.places}, worse at ${lost}${rest}.`));
    if (!places.length) return;
    key(host, [{ name: spec.large, colour: one.c }, ...(spec.small.some(Boolean) ? [{ name: spec.hollow, colour: one.c, look: "hollow" }] : []), ...(places.some((place) => known(place.lo)) ? [{ name: "95% interval", colour: one.c, look: "whisker" }] : [])]);
    const most = Math.max(...spec.n), size = (k, least, top) => Math.max(least, top * Math.sqrt(spec.n[k] / most));
    const lines = (place) => [place.name, `${called} ${signed(place.v)}`, known(place.lo) ? `95% interval ${between(place.lo, place.hi, signed)}` : null, `${number(spec.n[place.k])} rows` + (spec.events && known(spec.events[place.k]) ? `, ${number(spec.events[place.k])} events` : "") + (spec.small[place.k] ? " (few)" : "")];
    if (places.length <= 30) {
      const rows = places.map((place) => ({ label: place.name, marks: [{ v: place.v, lo: place.lo, hi: place.hi, c: one.c, hollow: spec.small[place.k], r: size(place.k, 3.5, 8), tip: lines(place) }] }));
      const inner = el("div");
      host.append(inner);
      drawRows(inner, { rows, label: spec.label, x_label: spec.x_label, zero: 0, format: "signed", step: 24 });
      return;
    }
    const height = 380, canvas = frame(host, height, spec.label), { root, width } = canvas;
    const left = 56, right = width - 10, top = 26, bottom = height - 40;
    const values = places.map((place) => place.v), [low, high] = extent([...values, 0]);
    const ends = places.filter((place) => !spec.small[place.k]).flatMap((place) => [place.lo, place.hi]).filter(known);
    const reach = (high - low) * 0.6, domain = padded([Math.max(Math.min(low, ...ends), low - reach), Math.min(Math.max(high, ...ends), high + reach)], 0.04);
    const named = width < 520 ? 2 : 3, letters = width < 520 ? 16 : 28; // names stand above the first dots
    const y = fitting(values, domain, [bottom - 6, top + 15 * named]), x = linear([-0.8, places.length - 0.2], [left, right]);
    axisLeft(root, y, { left, right, label: heading(spec.x_label, y, width), format: "signed", count: 6 });
    svg(root, "line", { x1: left, x2: right, y1: y(0), y2: y(0), class: "zero" });
    svg(root, "text", { x: (left + right) / 2, y: bottom + 28, "text-anchor": "middle", class: "soft" }, `${places.length} ${spec.places}, ${spec.order || "from the largest gain to the largest loss"}`);
    const cut = (value) => Math.max(top - 4, Math.min(bottom + 4, y(value)));
    const found = places.map((place, k) => {
      const at = x(k), r = size(place.k, 2.4, Math.min(7, Math.max(4, (right - left) / places.length)));
      if (known(place.lo)) svg(root, "line", { x1: at, x2: at, y1: cut(place.lo), y2: cut(place.hi), class: `whisker fine ${one.c}` });
      return { x: at, y: y(place.v), r, tip: lines(place), place };
    });
    found.forEach((mark) => svg(root, "circle", { cx: mark.x, cy: mark.y, r: mark.r, class: `${spec.small[mark.place.k] ? "hollow" : "solid"} ${one.c}` }));
    nameExtremes(root, found.slice(0, named), letters, 1, top, bottom);
    nameExtremes(root, found.slice(-named).reverse(), letters, -1, top, bottom);
    interactive(canvas, found);
  }
  /* Names of the outermost marks, stacked beyond them: above the largest, below the smallest. */
  function nameExtremes(root, marks, letters, side, top, bottom) {
    const last = marks[marks.length - 1];
    marks.forEach((mark, k) => {
      const away = (marks.length - 1 - k) * 15;
      const y = side > 0 ? Math.max(last.y - 22 - away, top + 8 + 15 * k) : Math.min(last.y + 30 + away, bottom + 6 - 15 * k);
      const x = last.x + side * (14 + 8 * k);
      svg(root, "path", { d: `M${mark.x} ${mark.y - side * (mark.r + 1)}L${mark.x} ${y - 4}L${x - side * 3} ${y - 4}`, class: "leader" });
      svg(root, "text", { x, y, "text-anchor": side > 0 ? "start" : "end", class: "halo" }, isolated(shortened(mark.place.name, letters)));
    });
  }

  /* ---------- lines: curves over a few positions, with intervals ---------- */

  function drawLines(host, spec) {
    clear(host);
    const series = spec.series;
    key(host, series.map((one) => ({ name: one.name, colour: one.c, look: { line: one.line, mark: one.mark } })));
    const height = spec.height || 300, canvas = frame(host, height, spec.label), { root, width } = canvas;
    const left = 56, right = Math.min(width, 820) - 16, top = 26, bottom = height - 44, show = FORMATS[spec.format || "signed"];
    const bend = spec.scale === "sqrt" ? Math.sqrt : (value) => value;
    const xs = Array.from(new Set(series.flatMap((one) => one.x))).sort((a, b) => a - b);
    const inner = linear(padded(extent(xs.map(bend)), 0.03), [left, right]), x = (value) => inner(bend(value));
    const values = series.flatMap((one) => one.v).filter(known), points = values.concat(known(spec.zero) ? [spec.zero] : []), [low, high] = extent(points);
    const ends = series.flatMap((one) => [...(one.lo || []), ...(one.hi || [])]).filter(known), reach = (high - low || 1) * 0.8; // longer intervals are cut
    const domain = padded([Math.max(Math.min(low, ...ends), low - reach), Math.min(Math.max(high, ...ends), high + reach)], 0.06);
    const y = ofSeries(series, domain, [bottom, top]), found = [];
    axisLeft(root, y, { left, right, label: heading(spec.y_label, y, width), format: spec.format || "signed" });
    axisBottom(root, x, { from: left, to: right, top, bottom, label: spec.x_label, labels: xs.map((value) => [value, number(value)]) });
    if (known(spec.zero)) svg(root, "line", { x1: left, x2: right, y1: y(spec.zero), y2: y(spec.zero), class: "zero" });
    const cut = (value) => Math.max(top, Math.min(bottom, y(value)));
    series.forEach((one, i) => {
      const aside = (i - (series.length - 1) / 2) * 7, own = one.x.map((value, k) => ({ k, at: x(value) + aside, v: one.v[k] })).filter((point) => known(point.v));
      own.forEach((p) => {
        if (one.lo && known(one.lo[p.k])) svg(root, "line", { x1: p.at, x2: p.at, y1: cut(one.lo[p.k]), y2: cut(one.hi[p.k]), class: `whisker ${one.c}` });
      });
      svg(root, "path", { d: "M" + own.map((p) => `${p.at} ${y(p.v)}`).join("L"), class: `stroke ${one.line} ${one.c} series` });
      own.forEach((p) => {
        svg(root, "path", { d: SHAPES[one.mark](p.at, y(p.v), 5), class: `solid ${one.c}` });
        found.push({ x: p.at, y: y(p.v), r: 5, tip: [one.name, `${number(one.x[p.k])} ${spec.unit || ""}: ${show(p.v)}`, one.lo && known(one.lo[p.k]) ? `95% interval ${between(one.lo[p.k], one.hi[p.k], show)}` : null, one.about ? one.about[p.k] : null] });
      });
    });
    interactive(canvas, found, { reach: 40 });
  }
  /* Logarithmic away from 0 where one line is more than twenty times as high as another: both are to be read. */
  function ofSeries(series, domain, range) {
    const tops = series.map((one) => Math.max(...one.v.filter(known).map(Math.abs))).filter((top) => top > 0);
    return tops.length && Math.max(...tops) > 20 * Math.min(...tops) ? signedLog(domain, range, Math.min(...tops) / 2) : linear(domain, range);
  }

  /* ---------- calibration: shares in intervals by place, and PIT histograms ---------- */

  /* Spread dots of nearly the same height to both sides, so that none hides another; closer together where they are many. */
  function swarm(values, place, gap, most) {
    const put = [];
    const away = values.map((value) => {
      const at = place(value);
      for (let step = 0; ; step++) {
        const side = Math.ceil(step / 2) * gap * (step % 2 ? 1 : -1);
        if (Math.abs(side) > most && gap > 1) return null;
        if (put.every((one) => Math.hypot(one[0] - at, one[1] - side) >= gap * 0.98)) { put.push([at, side]); return side; }
      }
    });
    return away.includes(null) ? swarm(values, place, gap * 0.8, most) : away;
  }
  /* Shares between which 95% of the places with n rows lie if intervals cover the share that they should. */
  function limits(n, share) {
    if (n > 400) {
      const more = 1.96 * Math.sqrt((share * (1 - share)) / n);
      return [Math.max(0, share - more), Math.min(1, share + more)];
    }
    let chance = Math.pow(1 - share, n), sum = chance, low = sum >= 0.025 ? 0 : null;
    for (let k = 0; k < n; k++) {
      if (low !== null && sum >= 0.975) return [low / n, k / n];
      chance *= ((n - k) / (k + 1)) * (share / (1 - share));
      sum += chance;
      if (low === null && sum >= 0.025) low = k + 1;
    }
    return [(low === null ? n : low) / n, 1];
  }
  function drawCoverage(host, spec) {
    clear(host);
    const sites = spec.sites.length > 0;
    key(host, [...spec.strategies.map((one) => ({ name: `${one.name}, mean over places`, colour: one.c, look: "diamond" })), { name: "nominal level", colour: "c0", look: "nominal" }, ...(sites ? [{ name: "one place, maximum likelihood", colour: "c4" }, ...(spec.small.some(Boolean) ? [{ name: spec.hollow, colour: "c4", look: "hollow" }] : []), { name: "where 95% of the places should be", colour: "c4", look: "band" }] : [])]);
    const grid = el("div", { class: "panels" }), panels = spec.levels.map((level) => el("div", { class: "panel" }, el("h4", {}, `${percent(level)} intervals`)));
    host.append(grid);
    grid.append(...panels);
    const all = [...spec.sites.flat(), ...spec.strategies.flatMap((one) => one.v), ...spec.levels].filter(known), bottomShare = Math.max(0, Math.min(...all) - 0.05);
    const least = Math.min(...spec.n), most = Math.max(...spec.n);
    spec.levels.forEach((level, j) => {
      const canvas = frame(panels[j], 250, `${spec.label} ${percent(level)} intervals.`), { root, width } = canvas;
      const left = 44, lane = 12 + 13 * spec.strategies.length, right = width - lane - 6, top = 24, bottom = 206, found = [];
      const y = linear([bottomShare, 1.03], [bottom, top]), bend = linear([Math.log(least * 0.85), Math.log(most * 1.15)], [left, right]), x = (n) => bend(Math.log(n));
      axisLeft(root, y, { left, right: width - 4, label: "share of left-out rows inside", format: "percent" });
      if (sites) {
        const steps = [1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000].filter((n) => n >= least && n <= most);
        axisBottom(root, x, { from: left, to: right, top: bottom, bottom, label: "rows of the place", labels: (steps.length > 1 ? steps : Array.from(new Set([least, most]))).map((n) => [n, number(n)]) });
        const counts = Array.from(new Set(Array.from({ length: 60 }, (_, k) => Math.round(least * Math.pow(most / least, k / 59))))), ends = counts.map((n) => limits(n, level));
        if (counts.length === 1) svg(root, "rect", { x: left, width: right - left, y: y(ends[0][1]), height: y(Math.max(bottomShare, ends[0][0])) - y(ends[0][1]), class: "band c4" });
        else svg(root, "path", { d: "M" + counts.map((n, k) => `${x(n)} ${y(Math.min(1, ends[k][1]))}`).join("L") + "L" + counts.map((n, k) => `${x(n)} ${y(Math.max(bottomShare, ends[k][0]))}`).reverse().join("L") + "Z", class: "band c4" });
      }
      svg(root, "line", { x1: left, x2: width - 4, y1: y(level), y2: y(level), class: "nominal" });
      const seen = new Map(); // places with the same size and share stand side by side
      spec.sites.forEach((values, k) => {
        if (!known(values[j])) return;
        const same = `${spec.n[k]} ${values[j]}`, place = seen.get(same) || 0, gap = least === most ? 8 : 3;
        seen.set(same, place + 1);
        const mark = { x: x(spec.n[k]) + Math.min(gap * Math.ceil(place / 2), 40) * (place % 2 ? 1 : -1), y: y(values[j]), r: 3.4, tip: [spec.names[k], `${percent(values[j])} of its ${number(spec.n[k])} rows are in ${percent(level)} intervals`] };
        svg(root, "circle", { cx: mark.x, cy: mark.y, r: 3.4, class: `${spec.small[k] ? "hollow" : "solid"} c4`, opacity: 0.75 });
        found.push(mark);
      });
      spec.strategies.forEach((one, i) => {
        if (!known(one.v[j])) return;
        const mark = { x: right + 14 + 13 * i, y: y(one.v[j]), r: 6, tip: [one.name, `${percent(one.v[j])} of left-out rows are in ${percent(level)} intervals, on average over places`] };
        svg(root, "path", { d: diamond(mark.x, mark.y, 6.5), class: `solid ${one.c}` });
        found.push(mark);
      });
      interactive(canvas, found, { reach: 18 });
    });
  }
  function drawPit(host, spec) {
    clear(host);
    const grid = el("div", { class: "panels" });
    host.append(grid);
    const even = 1 / (spec.edges.length - 1), most = Math.max(even * 1.5, ...spec.panels.flatMap((panel) => panel.share).filter(known));
    const panels = new Map(spec.panels.map((panel) => [panel, el("div", { class: "panel" }, el("h4", {}, panel.name))]));
    grid.append(...panels.values()); // all of them first: they share the width
    for (const panel of spec.panels) {
      const inner = panels.get(panel), canvas = frame(inner, 190, `${spec.label} ${panel.name}.`), { root, width } = canvas;
      const left = 40, right = width - 6, top = 20, bottom = 148, y = linear([0, most * 1.08], [bottom, top]), x = linear([0, 1], [left, right]);
      axisLeft(root, y, { left, right, label: "share of rows", format: "percent", count: 4 });
      axisBottom(root, x, { from: left, to: right, top: bottom, bottom, label: "where outcomes fall in predictions (PIT)", count: 5 });
      const found = panel.share.map((share, k) => {
        const a = x(spec.edges[k]), b = x(spec.edges[k + 1]);
        if (known(share)) svg(root, "rect", { x: a + 1, y: y(share), width: Math.max(b - a - 2, 1), height: bottom - y(share), class: `fill ${panel.c}` });
        return { x: (a + b) / 2, y: y(share || 0), tip: [`PIT ${number(spec.edges[k])} to ${number(spec.edges[k + 1])}`, `${percent(share)} of rows, ${percent(even)} if calibrated`] };
      });
      svg(root, "line", { x1: left, x2: right, y1: y(even), y2: y(even), class: "nominal dashed" });
      interactive(canvas, found, { onlyX: true });
    }
  }

  /* ---------- stack: shares that add up to one ---------- */

  function drawStack(host, spec) {
    clear(host);
    const parts = new Map(spec.rows.flatMap((row) => row.parts.map((part) => [part.name, part.c])));
    key(host, [...parts].map(([name, colour]) => ({ name, colour })));
    const step = 52, canvas = frame(host, spec.rows.length * step + 4, spec.label), { root, width } = canvas, right = Math.min(width, 760), found = [];
    spec.rows.forEach((row, k) => {
      const x = linear([0, 1], [0, right]), top = k * step + 18;
      svg(root, "text", { x: 0, y: top - 5, class: "soft" }, row.label);
      let from = 0;
      for (const part of row.parts) {
        const a = x(from), b = x(from + part.share), wide = b - a;
        from += part.share;
        svg(root, "rect", { x: a + 1, y: top, width: Math.max(wide - 2, 0.5), height: 24, rx: 3, class: `fill ${part.c}` });
        found.push({ x: (a + b) / 2, y: top + 12, tip: [part.name, `${percent(part.share)} of the ${spec.of || "draws"}`] });
        if (wide > 48) {
          svg(root, "rect", { x: (a + b) / 2 - 22, y: top + 3, width: 44, height: 18, rx: 9, fill: "var(--surface)" });
          svg(root, "text", { x: (a + b) / 2, y: top + 16, "text-anchor": "middle" }, percent(part.share));
        }
      }
    });
    interactive(canvas, found, { reach: 60 });
  }

  /* ---------- explorer: what depends on xi ---------- */

  function nearest(xis, xi) {
    const size = (value) => (value === null ? 1e9 : Math.log1p(20 * value));
    let best = 0;
    xis.forEach((one, k) => { if (Math.abs(size(one) - size(xi)) < Math.abs(size(xis[best]) - size(xi))) best = k; });
    return best;
  }
  function drawExplorer(host, spec) {
    const xis = (spec.views || spec.path || spec.effects).xis;
    if (!host.state) host.state = { k: nearest(xis, spec.start), shown: spec.views ? chosenFirst(spec.views.profiles) : [], way: null };
    const state = host.state, hadFocus = host.contains(document.activeElement) ? document.activeElement.id : null;
    clear(host);
    const updates = [], prefix = host.parentNode.id;
    const slider = el("input", { type: "range", id: prefix + "-xi", min: 0, max: xis.length - 1, step: 1, value: state.k, "aria-describedby": prefix + "-says" });
    const output = el("output", { for: prefix + "-xi" }), says = el("p", { class: "says", id: prefix + "-says" });
    const scale = el("div", { class: "scale", "aria-hidden": "true" }, ...xis.map((xi) => el("span", {}, strength(xi))));
    host.append(el("div", { class: "dial" }, el("div", { class: "top" }, el("label", { for: prefix + "-xi" }, "Strength of the anchor penalty, xi (0 is maximum likelihood)"), output), slider, scale, says));
    const reference = nearest(xis, 0);
    function move(speak) {
      const xi = xis[state.k];
      output.textContent = "xi = " + strength(xi) + (state.k === reference ? " (maximum likelihood)" : known(spec.recommended) && state.k === nearest(xis, spec.recommended) ? " (recommended)" : "");
      slider.setAttribute("aria-valuetext", output.textContent);
      const words = updates.map((update) => update(xi)).filter(Boolean).join(" ");
      says.textContent = words;
      if (speak) live.textContent = output.textContent + ". " + words;
    }
    slider.addEventListener("input", () => { state.k = Number(slider.value); hideTip(); move(true); });
    if (spec.views) views(host, spec.views, state, updates, () => drawExplorer(host, spec));
    if (spec.path) sites(host, spec, updates);
    if (spec.effects) effects(host, spec, updates);
    move(false);
    if (hadFocus && document.getElementById(hadFocus)) document.getElementById(hadFocus).focus();
  }

  /* Up to six profiles are shown at first, the new place (which comes last) among them. */
  function chosenFirst(profiles) {
    const last = profiles.length - 1, fresh = last > 5 && profiles[last].name === "new place";
    return profiles.map((_, k) => k < (fresh ? 5 : 6) || (fresh && k === last));
  }
  const WAYS = { density: "density", survival: "survival curve" };
  function views(host, own, state, updates, redraw) {
    const ways = own.kind === "classes" || own.x.length <= 2 ? ["density"] : ["density", "survival"].filter((way) => own.profiles.some((profile) => profile[way]));
    if (!ways.includes(state.way)) state.way = own.kind === "survival" && ways.includes("survival") ? "survival" : ways[0];
    const title = { classes: "Predicted probabilities of the classes", counts: own.x.length > 2 ? "Predicted probabilities of counts" : "Predicted probabilities" }[own.kind] || "Predicted distributions";
    host.append(el("h3", {}, title));
    const controls = el("div", { class: "controls" });
    if (ways.length > 1) {
      const group = el("fieldset", {}, el("legend", {}, "Show"));
      ways.forEach((way) => {
        const input = el("input", { type: "radio", name: host.parentNode.id + "-way", id: `${host.parentNode.id}-${way}`, checked: way === state.way });
        input.addEventListener("change", () => { state.way = way; redraw(); });
        group.append(el("label", {}, input, own.kind === "counts" && way === "density" ? "probabilities" : WAYS[way]));
      });
      controls.append(group);
    }
    if (own.profiles.length > 1) {
      const group = el("fieldset", {}, el("legend", {}, "Profiles"));
      own.profiles.forEach((profile, k) => {
        const input = el("input", { type: "checkbox", id: `${host.parentNode.id}-profile-${k}`, checked: state.shown[k] });
        input.addEventListener("change", () => { state.shown[k] = input.checked; redraw(); });
        group.append(el("label", { title: profile.name }, input, shortened(profile.name, 32)));
      });
      controls.append(group);
    }
    if (controls.childNodes.length) host.append(controls);
    const bars = own.kind === "classes" || (own.kind === "counts" && state.way === "density" && own.x.length <= 16);
    key(host, bars ? [{ name: "maximum likelihood", colour: "c0", look: "tick" }, { name: "at this xi", colour: "c1", look: "bar" }] : [{ name: "maximum likelihood", colour: "c0", look: "dashed" }, { name: "at this xi", colour: "c1", look: "line" }]);
    const grid = el("div", { class: "panels" });
    host.append(grid);
    const made = [];
    own.profiles.forEach((profile, k) => {
      if (!state.shown[k] || !profile[state.way]) return;
      const under = el("p", { class: "under" }), inner = el("div", { class: "panel profile" }, el("h4", { dir: "auto", title: profile.name }, shortened(profile.name, 80)), el("p", { class: "under" }, [profile.about, behind(profile)].filter(Boolean).join(", ")), under);
      grid.append(inner);
      made.push(() => (bars ? barPanel : curvePanel)(inner, own, profile, state.way, under));
    });
    made.forEach((panel) => updates.push(panel())); // after all are placed: they share the width
    if (!grid.childNodes.length) grid.append(el("p", { class: "note" }, "Choose at least one profile."));
  }
  const medianText = (profile, reference, k) => (profile.median && known(profile.median[k]) && known(profile.median[reference]) ? `median ${alike(profile.median[reference], profile.median)}, at this xi ${alike(profile.median[k], profile.median)}` : "");
  function alike(value, values) { // with as many decimals as the largest of the values needs
    if (values.filter(known).every(Number.isInteger)) return number(value);
    const size = Math.floor(Math.log10(Math.max(...values.filter(known).map(Math.abs)) || 1)), text = value.toFixed(Math.max(0, Math.min(6, 2 - size)));
    return Math.abs(value) >= 10000 ? number(Math.round(value)) : minus(text);
  }
  const behind = (profile) => (known(profile.n) ? `n = ${number(profile.n)}` : null);

  function curvePanel(inner, own, profile, way, under) {
    const curves = profile[way], reference = nearest(own.xis, 0), survival = way === "survival";
    const canvas = frame(inner, 210, `${profile.name}: ${WAYS[way]}.`), { root, width } = canvas;
    const left = survival ? 44 : 10, right = width - 10, top = survival ? 24 : 22, bottom = 164;
    const [from, to] = shownRange(own, way), x = linear([own.x[from], own.x[to]], [left, right]);
    const most = survival ? 1 : Math.max(...curves.filter(Boolean).flat().filter(known));
    const y = linear([0, most * (survival ? 1 : 1.04)], [bottom, top]);
    if (survival) axisLeft(root, y, { left, right, label: "share still without the event", format: "percent", count: 4 });
    else svg(root, "text", { x: left, y: 11, class: "soft" }, own.kind === "counts" ? "probability" : "density");
    axisBottom(root, x, { from: left, to: right, top: survival ? bottom : top, bottom, label: own.x_label, count: Math.max(3, Math.floor(width / 60)) });
    svg(root, "line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "zero" });
    const path = (curve) => (curve ? "M" + own.x.slice(from, to + 1).map((value, k) => `${x(value).toFixed(1)} ${y(known(curve[from + k]) ? curve[from + k] : 0).toFixed(1)}`).join("L") : "");
    const area = svg(root, "path", { class: "area c1" });
    svg(root, "path", { d: path(curves[reference]), class: "stroke dashed c0 curve-ml" });
    const moving = svg(root, "path", { class: "stroke c1 curve-xi" });
    let now = reference;
    const found = own.x.slice(from, to + 1).map((value, j) => {
      const mark = { x: x(value), y: bottom, tip: () => [`${own.x_label || "outcome"} ${number(value, 4)}`, `maximum likelihood ${reading(curves[reference])}`, `at this xi ${reading(curves[now])}`] };
      const reading = (curve) => (curve ? (survival ? percent(curve[from + j]) : number(curve[from + j])) : "\u2013");
      mark.follow = () => { mark.y = curves[now] && known(curves[now][from + j]) ? y(curves[now][from + j]) : bottom; };
      return mark;
    });
    interactive(canvas, found, { onlyX: true });
    return (xi) => {
      now = nearest(own.xis, xi);
      moving.setAttribute("d", path(curves[now]));
      area.setAttribute("d", survival || !curves[now] ? "" : `${path(curves[now])}L${right} ${bottom}L${left} ${bottom}Z`);
      found.forEach((mark) => mark.follow());
      under.textContent = medianText(profile, reference, now);
      return "";
    };
  }
  /* The part of the grid where any profile has density: the same for all of them. */
  function shownRange(own, way) {
    if (way === "survival") return [0, own.x.length - 1];
    const some = own.x.map((_, j) => own.profiles.some((profile) => profile.density && profile.density.some((curve) => curve && curve[j] > (own.kind === "counts" ? 0.02 : 0.004) * Math.max(...curve))));
    const from = some.indexOf(true), to = some.lastIndexOf(true);
    return from < 0 || to - from < 2 ? [0, own.x.length - 1] : [from, to];
  }
  function barPanel(inner, own, profile, way, under) {
    const curves = profile.density, reference = nearest(own.xis, 0), classes = own.kind === "classes";
    const step = classes ? 30 : 16, height = own.x.length * step + 46, canvas = frame(inner, height, `${profile.name}: predicted probabilities.`), { root, width } = canvas;
    const names = own.x.map((value) => (typeof value === "number" ? number(value) : String(value)));
    const left = Math.min(Math.max(...names.map((name) => name.length)) * TEXT + 14, width * 0.42), right = width - 12, top = 4, bottom = top + own.x.length * step;
    const most = Math.max(...curves.filter(Boolean).flat().filter(known)), x = linear([0, Math.min(1, most * 1.08)], [left, right]), found = [];
    axisBottom(root, x, { from: left, to: right, top, bottom, label: classes ? "probability" : `probability of ${own.x_label || "the count"}`, format: "percent", count: 4 });
    let now = reference;
    const moving = names.map((name, j) => {
      const middle = top + (j + 0.5) * step, thick = step * 0.62;
      svg(svg(root, "text", { x: left - 8, y: middle + 4, "text-anchor": "end" }, isolated(shortened(name, Math.max(3, Math.floor((left - 10) / TEXT))))), "title", {}, name);
      const bar = svg(root, "rect", { x: left, y: middle - thick / 2, height: thick, rx: 2, class: "fill c1 curve-xi", opacity: 0.8 });
      const old = curves[reference] ? curves[reference][j] : null;
      svg(root, "path", { d: `M${x(old || 0)} ${middle - thick / 2 - 2}V${middle + thick / 2 + 2}`, class: "stroke c0 curve-ml", "stroke-width": 3 });
      const mark = { x: x(old || 0), y: middle, tip: () => [name, `maximum likelihood ${percent(old)}`, `at this xi ${percent(curves[now] ? curves[now][j] : null)}`] };
      found.push(mark);
      return { bar, mark };
    });
    interactive(canvas, found, { reach: 200 });
    return (xi) => {
      now = nearest(own.xis, xi);
      moving.forEach(({ bar, mark }, j) => {
        const value = curves[now] && known(curves[now][j]) ? curves[now][j] : 0;
        bar.setAttribute("width", Math.max(x(value) - left, 0));
        mark.x = x(value);
      });
      under.textContent = medianText(profile, reference, now);
      return "";
    };
  }

  function sites(host, spec, updates) {
    const { xis, loss } = spec.path, all = loss.flat().filter(known);
    if (!all.length) return;
    host.append(el("h3", {}, `Gain or loss by ${spec.one}, left out in turn`));
    if (all.every((value) => Math.abs(value) < LEAST)) {
      host.append(el("p", { class: "note" }, "No xi changes the log-likelihood per row anywhere by 0.001 or more."));
      return;
    }
    const grid = el("div", { class: "panels" }), a = el("div", { class: "panel" }, el("h4", {}, "Over xi")), b = el("div", { class: "panel" }), title = el("h4", {});
    b.append(title);
    grid.append(a, b);
    host.append(grid);
    const column = (k) => loss.map((row) => row[k]).filter(known), at = (share) => xis.map((_, k) => quantile(column(k), share));
    const order = loss.map((row, k) => ({ k, v: [...row].reverse().find(known) })).filter((one) => known(one.v)).sort((p, q) => q.v - p.v);
    const named = order.length > 4 ? [order[0], order[1], order[order.length - 2], order[order.length - 1]] : order, few = loss.length <= 6;

    const canvas = frame(a, 300, `Gain over xi: the middle half, 80% and the extremes at the largest xi of the ${spec.places}.`), { root, width } = canvas;
    const letters = width < 400 ? 12 : 17, left = 54, right = width - letters * 6.6 - 8, top = 26, bottom = 256, domain = padded(notTiny(extent([...all, 0])), 0.09), y = fitting(all, domain, [bottom, top]);
    const x = linear([0, xis.length - 1], [left + 8, right - 8]), found = [];
    axisLeft(root, y, { left, right, label: heading("gain per row over xi = 0", y, width), format: "signed", count: 6 });
    axisBottom(root, x, { from: left, to: right, top: bottom, bottom, label: "xi", labels: xis.map((xi, k) => [k, strength(xi)]) });
    svg(root, "line", { x1: left, x2: right, y1: y(0), y2: y(0), class: "zero" });
    const line = (values) => "M" + values.map((value, k) => [k, value]).filter(([, value]) => known(value)).map(([k, value]) => `${x(k)} ${y(value)}`).join("L");
    const band = (low, high) => svg(root, "path", { d: `${line(low)}L${line(high.slice()).slice(1).split("L").reverse().join("L")}Z`, class: "band c1" });
    if (!few) { band(at(0.1), at(0.9)); band(at(0.25), at(0.75)); }
    const ends = named.map(({ k, v }) => ({ k, y: y(v) + 4 })); // from the largest to the smallest
    ends.forEach((end, j) => { if (j) end.y = Math.max(end.y, ends[j - 1].y + 14); });
    ends.slice().reverse().forEach((end, j, own) => { end.y = Math.min(end.y, j ? own[j - 1].y - 14 : bottom + 4); });
    ends.forEach(({ k, y: height }) => {
      svg(root, "path", { d: line(loss[k]), class: "stroke c4", "stroke-width": 1.25, opacity: 0.8 });
      svg(svg(root, "text", { x: right + 6, y: height, class: "soft" }, isolated(shortened(spec.names[k], letters))), "title", {}, spec.names[k]);
    });
    svg(root, "path", { d: line(at(0.5)), class: "stroke c1", "stroke-width": 3 });
    const cursor = svg(root, "line", { y1: top, y2: bottom, class: "cursor" });
    xis.forEach((xi, k) => found.push({ x: x(k), y: y(at(0.5)[k]), tip: [`xi = ${strength(xi)}`, `median gain ${signed(at(0.5)[k])}`, few ? null : `middle half ${between(at(0.25)[k], at(0.75)[k], signed)}`, `from ${signed(extent(column(k))[0])} to ${signed(extent(column(k))[1])}`] }));
    interactive(canvas, found, { onlyX: true });
    key(a, [{ name: "median", colour: "c1", look: "line" }, ...(few ? [] : [{ name: "middle half and 80%", colour: "c1", look: "band" }]), { name: few ? spec.places : "extremes at the largest xi", colour: "c4", look: "line" }]);

    const second = frame(b, 300, `Gains of all ${spec.places} at the chosen xi.`), w = second.width, across = fitting(all, domain, [14, w - 14]), middle = 140;
    axisBottom(second.root, across, { from: 10, to: w - 10, top: 26, bottom: 256, label: "gain per row over xi = 0", format: "signed" });
    svg(second.root, "line", { x1: across(0), x2: across(0), y1: 26, y2: 256, class: "zero" });
    svg(second.root, "text", { x: across(0) - 8, y: 18, "text-anchor": "end", class: "soft" }, across(0) > 70 ? "\u2190 worse" : "");
    svg(second.root, "text", { x: across(0) + 8, y: 18, class: "soft" }, w - across(0) > 70 ? "better \u2192" : "");
    let now = 0;
    const dot = loss.length <= 40 ? 6 : 4, marks = loss.map((row, k) => ({ k, r: dot, tip: () => [spec.names[k], `gain ${signed(row[now])} at xi = ${strength(xis[now])}`, `${number(spec.n[k])} rows`] }));
    marks.forEach((mark) => { mark.node = svg(second.root, "circle", { r: dot, class: `${spec.small[mark.k] ? "hollow" : "solid"} c1 site` }); });
    setTimeout(() => marks.forEach((mark) => mark.node.classList.add("moves"))); // not on the way to the first place
    const visible = [];
    interactive(second, visible.length ? visible : marks);
    updates.push((xi) => {
      now = nearest(xis, xi);
      set(cursor, { x1: x(now), x2: x(now) });
      const own = marks.filter((mark) => known(loss[mark.k][now]));
      const away = swarm(own.map((mark) => loss[mark.k][now]), across, 2.1 * dot, 104);
      marks.forEach((mark) => { mark.x = mark.y = -99; mark.node.setAttribute("visibility", "hidden"); });
      own.forEach((mark, i) => {
        mark.x = across(loss[mark.k][now]);
        mark.y = middle + away[i];
        set(mark.node, { cx: mark.x, cy: mark.y, visibility: "visible" });
      });
      const better = own.filter((mark) => loss[mark.k][now] >= LEAST).length;
      title.textContent = `At xi = ${strength(xis[now])}`;
      return `At xi = ${strength(xis[now])} the median gain is ${signed(quantile(column(now), 0.5))}; ${better} of ${own.length} ${spec.places} gain.${spec.beyond}`;
    });
  }

  function effects(host, spec, updates) {
    const { xis, rows, unit } = spec.effects, reference = nearest(xis, 0);
    const all = rows.flatMap((row) => row.values).filter(known);
    if (!all.length) return;
    host.append(el("h3", {}, "Average effects of the covariates"));
    key(host, [{ name: "maximum likelihood", colour: "c0", look: "hollow" }, { name: "at this xi", colour: "c1" }]);
    const inner = el("div"), per = (row) => (row.per === "unit" ? "per unit" : row.per), short = widthOf(host) < 480;
    const widest = Math.max(...all.map((value) => number(value).length)); // values stand beside the plot
    const labels = rows.map((row) => row.name + (row.per && !short ? `, ${per(row)}` : ""));
    host.append(inner);
    updates.push((xi) => {
      const now = nearest(xis, xi);
      drawRows(inner, {
        label: `Average effects at xi = ${strength(xis[now])}: ${unit}.`, letters: 2 * widest + 3, x_label: unit, zero: 0, domain: padded(extent([...all, 0])),
        rows: rows.map((row, k) => ({ label: labels[k], linked: true, about: [unit, per(row)].filter(Boolean).join(", "), marks: [{ v: row.values[reference], c: "c0", hollow: true, name: "maximum likelihood" }, { v: row.values[now], c: "c1", name: `xi = ${strength(xis[now])}` }] })),
      });
      return "";
    });
  }

  /* ---------- tables ---------- */

  function sortable(table) {
    const body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells), original = Array.from(body.rows);
    heads.forEach((head, j) => {
      const button = el("button", { type: "button" }, head.textContent);
      if (head.title) button.title = head.title;
      head.replaceChildren(button, el("span", { class: "paper", "aria-hidden": "true" }, button.textContent)); // buttons are not repeated on each page
      const numeric = head.classList.contains("num");
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort"), down = before ? before === "ascending" : numeric;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => (numeric ? (row.cells[j].dataset.v === undefined ? null : Number(row.cells[j].dataset.v)) : row.cells[j].textContent);
        const sorted = original.slice().sort((p, q) => {
          const a = value(p), b = value(q);
          if (a === null || b === null) return (a === null) - (b === null); // unknown values stay last
          return (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true })) * (down ? -1 : 1);
        });
        body.append(...sorted);
        live.textContent = `Sorted by ${button.textContent}, ${down ? "largest" : "smallest"} first`;
      });
    });
  }
  function searchable(table) {
    const field = el("input", { type: "search", "aria-label": table.dataset.search, placeholder: table.dataset.search, autocomplete: "off" });
    const count = el("span", { class: "note" }), rows = Array.from(table.tBodies[0].rows);
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      let left = 0;
      for (const row of rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        left += row.hidden ? 0 : 1;
      }
      count.textContent = wanted ? `${left} of ${rows.length}` : "";
      live.textContent = `${left} of ${rows.length} rows`;
    });
    table.closest(".scroller").before(el("div", { class: "controls" }, field, count));
  }
  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  document.querySelectorAll("table[data-search]").forEach(searchable);

  /* ---------- copy, theme, sections ---------- */

  document.querySelectorAll(".code").forEach((block) => {
    const button = el("button", { type: "button", "aria-label": "Copy: " + block.querySelector(".code-label").textContent }, "Copy");
    button.addEventListener("click", async () => {
      const text = block.querySelector("code").textContent;
      let done = true;
      try { await navigator.clipboard.writeText(text); } catch {
        getSelection().selectAllChildren(block.querySelector("code")); // copying needs a permission that a browser may refuse
        try { done = document.execCommand("copy"); } catch { done = false; }
      }
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      live.textContent = done ? "Copied" : "The text is selected. Press Control C to copy it.";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  });

  const dark = matchMedia("(prefers-color-scheme: dark)"), themes = document.getElementById("tools");
  if (themes) {
    const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
    const button = el("button", { type: "button", id: "theme" });
    const name = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
    button.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; name(); });
    dark.addEventListener("change", name);
    name();
    themes.append(button);
  }

  const links = new Map(Array.from(document.querySelectorAll("nav a"), (link) => [link.hash.slice(1), link]));
  if ("IntersectionObserver" in window && links.size) {
    const seen = new Set();
    const watch = new IntersectionObserver((entries) => {
      entries.forEach((entry) => (entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id)));
      const first = Array.from(links.keys()).find((id) => seen.has(id));
      links.forEach((link, id) => (id === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    }, { rootMargin: "-8% 0px -60% 0px" });
    links.forEach((_, id) => watch.observe(document.getElementById(id)));
  }

  /* ---------- all plots, again when their width changes ---------- */

  const KINDS = { rows: drawRows, dots: drawDots, lines: drawLines, coverage: drawCoverage, pit: drawPit, stack: drawStack, explorer: drawExplorer };
  const figures = Array.from(document.querySelectorAll("figure[data-chart]")).filter((figure) => charts[figure.id]);
  function draw(figure) {
    const host = figure.querySelector(".plot"), spec = charts[figure.id];
    KINDS[spec.kind](host, spec);
    host.drawn = host.clientWidth;
  }
  figures.forEach(draw);
  let waiting = 0;
  const observer = new ResizeObserver((entries) => {
    if (printing || entries.every((entry) => Math.abs(entry.target.clientWidth - entry.target.drawn) < 2)) return;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => figures.filter((figure) => { const host = figure.querySelector(".plot"); return Math.abs(host.clientWidth - host.drawn) >= 2; }).forEach(draw));
  });
  figures.forEach((figure) => observer.observe(figure.querySelector(".plot")));
  addEventListener("beforeprint", () => { printing = true; figures.forEach(draw); });
  addEventListener("afterprint", () => { printing = false; figures.forEach(draw); });
})();
