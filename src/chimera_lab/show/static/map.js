"use strict";
// Maps of influence. Each figure.map holds its data as JSON. Pointing at a node shows the influence of all nodes on it;
// a click or the arrow keys select a node, the menus select layer and head.

const SVG = "http://www.w3.org/2000/svg";

function make(parent, name, attributes = {}, text = "") {
  const element = parent.namespaceURI === SVG || name === "svg"
    ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return parent.appendChild(element);
}

// Colours: the page's ramp, read again when the colour scheme changes.

let ramp = [];

function readRamp() {
  const style = getComputedStyle(document.documentElement);
  ramp = [0, 1, 2, 3, 4].map(k => {
    const hex = style.getPropertyValue(`--ramp-${k}`).trim();
    return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  });
}

function colour(share) {
  const at = share * (ramp.length - 1), k = Math.min(ramp.length - 2, Math.floor(at));
  return ramp[k].map((low, c) => Math.round(low + (at - k) * (ramp[k + 1][c] - low)));
}

const css = rgb => `rgb(${rgb.join(",")})`;
const inkOn = rgb => 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140 ? "#1d1827" : "#fdfcff";
const short = value => value === 0 ? "0" : value >= 0.01 ? value.toFixed(2) : value.toExponential(0).replace("e-", "e−");

// Drawings: each kind returns the places of its nodes, and a function that paints one value from 0 to 1 for each node.

function drawImage(box, map) {
  const { rows, columns, source } = map.drawing, panels = make(box, "div", { class: "panels pair" });
  const size = `0 0 ${columns} ${rows}`, both = [];
  for (const bare of [true, false]) {
    const svg = make(panels, "svg", { viewBox: size, class: "pixels" });
    if (bare) make(svg, "image", { href: source, width: columns, height: rows });
    both.push(map.labels.map((_, k) => make(svg, "rect", {
      x: k % columns, y: Math.floor(k / columns), width: 1, height: 1, "data-node": k,
      class: bare ? "pixel bare" : "pixel",
    })));
  }
  return {
    places: () => map.labels.map((_, k) => [k % columns, Math.floor(k / columns)]),
    paint(shares, chosen) {
      shares.forEach((share, k) => both[1][k].setAttribute("fill", css(colour(share))));
      for (const cells of both) {
        cells.forEach((cell, k) => cell.classList.toggle("chosen", k === chosen));
        cells[chosen].parentNode.append(cells[chosen]); // above its neighbours
      }
    },
  };
}

function drawWords(box, map) {
  const words = make(box, "div", { class: "words" });
  const spans = map.drawing.texts.map((text, k) => {
    if (!map.drawing.joined[k]) words.append(" ");
    return make(words, "span", { "data-node": k, class: map.drawing.joined[k] ? "joined" : "" }, text);
  });
  return {
    places: () => spans.map(span => [span.offsetLeft + span.offsetWidth / 2, span.offsetTop]),
    paint(shares, chosen) {
      shares.forEach((share, k) => {
        const rgb = colour(share);
        Object.assign(spans[k].style, { background: css(rgb), color: inkOn(rgb) });
        spans[k].classList.toggle("chosen", k === chosen);
      });
    },
  };
}

function drawGraph(box, map) {
  const { places, links, loops, symbols, directed } = map.drawing, panels = make(box, "div", { class: "panels" });
  const reach = axis => Math.max(...places.map(place => place[axis]));
  const unit = links.length
    ? Math.min(...links.map(([a, b]) => Math.hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]))) : 1;
  const radius = unit * 0.34, edge = unit * 0.6;
  const svg = make(panels, "svg", {
    viewBox: `${-edge} ${-edge} ${reach(0) + 2 * edge} ${reach(1) + 2 * edge}`, class: "graph",
  });
  const lines = make(svg, "g", { class: "links", "stroke-width": unit * 0.06 });
  for (const [a, b, strokes] of links) drawLink(lines, places[a], places[b], strokes, radius, directed);
  const middle = [0, 1].map(axis => places.reduce((sum, place) => sum + place[axis], 0) / places.length);
  for (const k of loops) drawLoop(lines, places[k], middle, radius);
  const atoms = make(svg, "g", { class: "atoms", "stroke-width": unit * 0.04 });
  const nodes = places.map(([x, y], k) => {
    const node = make(atoms, "g", { "data-node": k });
    make(node, "circle", { cx: x, cy: y, r: radius });
    const label = symbols[k], size = Math.min(1.05, 2.6 / label.length);
    make(node, "text", { x, y, "font-size": radius * size }, label);
    return node;
  });
  return {
    places: () => places,
    paint(shares, chosen) {
      shares.forEach((share, k) => {
        const rgb = colour(share), [circle, text] = nodes[k].children;
        circle.setAttribute("fill", css(rgb));
        text.setAttribute("fill", inkOn(rgb));
        circle.setAttribute("stroke-width", k === chosen ? unit * 0.12 : unit * 0.04);
        nodes[k].classList.toggle("chosen", k === chosen);
      });
    },
  };
}

function drawLink(lines, [ax, ay], [bx, by], strokes, radius, directed) {
  const length = Math.hypot(bx - ax, by - ay) || 1, [ux, uy] = [(bx - ax) / length, (by - ay) / length];
  for (let k = 0; k < Math.ceil(strokes); k++) {
    const off = (k - (Math.ceil(strokes) - 1) / 2) * radius * 0.4;
    const line = make(lines, "line", { x1: ax - uy * off, y1: ay + ux * off, x2: bx - uy * off, y2: by + ux * off });
    if (strokes % 1 && k) line.setAttribute("stroke-dasharray", `${radius * 0.35} ${radius * 0.25}`);
  }
  if (directed) {
    const [tx, ty] = [bx - ux * radius * 1.05, by - uy * radius * 1.05], h = radius * 0.55;
    const corner = side => `${tx - ux * h - uy * side * h * 0.6},${ty - uy * h + ux * side * h * 0.6}`;
    make(lines, "polygon", { class: "arrow", points: `${tx},${ty} ${corner(1)} ${corner(-1)}` });
  }
}

// A self-loop: a ring behind the node, on the side away from the other nodes.

function drawLoop(lines, [x, y], [mx, my], radius) {
  const length = Math.hypot(x - mx, y - my), far = radius * 0.8;
  const [ux, uy] = length ? [(x - mx) / length, (y - my) / length] : [0, -1];
  make(lines, "circle", { class: "loop", cx: x + ux * far, cy: y + uy * far, r: radius * 0.7 });
}

// The whole matrix: row i is the influence of all nodes on node i. Pointing at a row selects its node.

function drawMatrix(box, map, choose) {
  const size = map.labels.length, canvas = make(box.querySelector(".panels"), "canvas", { width: size, height: size });
  const node = event => Math.min(size - 1, Math.floor(event.offsetY / canvas.clientHeight * size));
  canvas.addEventListener("pointermove", event => choose(node(event), false));
  canvas.addEventListener("click", event => choose(node(event), true));
  return (shares, chosen) => {
    const context = canvas.getContext("2d"), image = context.createImageData(size, size);
    shares.forEach((share, at) => {
      const rgb = colour(share), row = Math.floor(at / size);
      image.data.set([...rgb, row === chosen ? 255 : 150], 4 * at);
    });
    context.putImageData(image, 0, 0);
  };
}

// A map

const drawings = { image: drawImage, words: drawWords, graph: drawGraph };

function open(figure) {
  const map = JSON.parse(figure.querySelector("script").textContent), T = map.labels.length, K = map.nodes.length;
  const bytes = Uint8Array.from(atob(map.planes), letter => letter.charCodeAt(0));
  const value = code => code ? map.low * (map.high / map.low) ** ((code - 1) / 254) : 0;
  const controls = make(figure, "div", { class: "controls" });
  const menus = map.menus.map(([name, choices], k) => {
    const label = make(controls, "label", {}, name), select = make(label, "select");
    choices.forEach((choice, at) => make(select, "option", { value: at }, choice));
    select.value = map.chosen[k];
    select.addEventListener("change", () => show(pinned));
    label.hidden = choices.length < 2;
    if (label.hidden) label.style.display = "none";
    return select;
  });
  const box = make(figure, "div", {
    class: "drawing", tabindex: 0, role: "group", "aria-label": `${map.title}: arrow keys choose a ${map.node}`,
  });
  const drawing = drawings[map.kind](box, map);
  const legend = make(figure, "div", { class: "legend" });
  const ends = [make(legend, "span"), make(legend, "i"), make(legend, "span")];
  const status = make(figure, "p", { class: "status", "aria-live": "polite" });
  const name = k => map.kind === "words" ? `“${map.labels[k]}”`
    : map.kind === "image" ? `(row ${map.labels[k].replace(",", ", column ")})` : map.labels[k];
  let pinned = map.first;
  const choose = (node, pin) => { if (pin) pinned = available(node); show(available(node)); };
  const paintMatrix = map.matrix ? drawMatrix(box, map, choose) : null;

  function available(node) { // the nearest node whose row is included
    if (map.nodes.includes(node)) return node;
    const places = drawing.places(), far = k => Math.hypot(places[k][0] - places[node][0], places[k][1] - places[node][1]);
    return map.nodes.reduce((best, k) => far(k) < far(best) ? k : best);
  }

  function plane() {
    const at = (+menus[0].value * map.menus[1][1].length + +menus[1].value) * K * T;
    return bytes.subarray(at, at + K * T);
  }

  function show(node) {
    const codes = plane(), at = map.nodes.indexOf(node), row = codes.subarray(at * T, (at + 1) * T);
    const share = code => Math.max(0, code - 1) / 254; // one scale for all layers and heads
    drawing.paint(Array.from(row, share), node);
    if (paintMatrix) paintMatrix(Array.from(codes, share), node);
    ends[0].textContent = `≤ ${short(map.low)}`;
    ends[2].textContent = short(map.high);
    const strongest = [...row.keys()].filter(k => k !== node && row[k]).sort((a, b) => row[b] - row[a] || a - b).slice(0, 4);
    const list = strongest.map(k => `${name(k)} ${short(value(row[k]))}`).join(", ");
    status.textContent = `Influence on ${map.node} ${name(node)}: itself ${short(value(row[node]))}`
      + (list ? `; strongest others: ${list}` : "; no other");
  }

  const nodeOf = event => event.target.closest("[data-node]");
  box.addEventListener("pointerover", event => { const found = nodeOf(event); if (found) choose(+found.dataset.node, false); });
  box.addEventListener("pointerleave", () => show(pinned));
  box.addEventListener("click", event => { const found = nodeOf(event); if (found) choose(+found.dataset.node, true); });
  box.addEventListener("keydown", event => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    pinned = next(map, drawing.places(), pinned, step);
    show(pinned);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readRamp(); show(pinned); });
  show(pinned);
}

// The node that an arrow key selects: the nearest in that direction; for words, the next or previous one.
function next(map, places, from, [dx, dy]) {
  if (map.kind === "words" && dx) {
    const at = map.nodes.indexOf(from) + dx;
    return map.nodes[Math.max(0, Math.min(map.nodes.length - 1, at))];
  }
  let best = from, least = Infinity;
  for (const k of map.nodes) {
    const x = places[k][0] - places[from][0], y = places[k][1] - places[from][1];
    const along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along > 1e-6 && along + 2 * aside < least) [best, least] = [k, along + 2 * aside];
  }
  return best;
}

// Pictures that do not change: elements with a share of the scale.

function paintShares() {
  for (const element of document.querySelectorAll("[data-share]"))
    element.setAttribute("fill", css(colour(+element.dataset.share)));
}

readRamp();
document.querySelectorAll("figure.map").forEach(open);
paintShares();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readRamp(); paintShares(); });
