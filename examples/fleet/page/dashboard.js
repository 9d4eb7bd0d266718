// Draws the map, then applies the server-sent events.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const KM_PER_DEGREE = 111.2;
const NEWS_SHOWN = 40;
const MARGIN = 18;

const $ = (selector) => document.querySelector(selector);
const trucks = new Map(); // by id: { node, lat, lon, kmh, heading, at }
const news = [];
let silent = new Set();
let chosen = null;
let toPixels; // (lat, lon) -> [x, y] on the map in its current size
let country;

// --- the map

function projection(border, width, height) {
  const lats = border.map(([lat]) => lat), lons = border.map(([, lon]) => lon);
  const [south, north] = [Math.min(...lats), Math.max(...lats)];
  const [west, east] = [Math.min(...lons), Math.max(...lons)];
  const shrink = Math.cos(((south + north) / 2) * Math.PI / 180);
  const scale = Math.min((height - 2 * MARGIN) / (north - south), (width - 2 * MARGIN) / ((east - west) * shrink));
  const left = (width - (east - west) * shrink * scale) / 2;
  const top = (height - (north - south) * scale) / 2;
  const project = (lat, lon) => [left + (lon - west) * shrink * scale, top + (north - lat) * scale];
  project.pixelsPerKm = scale / KM_PER_DEGREE;
  return project;
}

function draw() {
  const { width, height } = $("#map").getBoundingClientRect();
  toPixels = projection(country.border, width, height);
  const at = ([lat, lon]) => toPixels(lat, lon).map((it) => it.toFixed(1)).join(" ");
  const land = $("#land");
  land.replaceChildren();
  for (let lat = 40; lat <= 62; lat += 1) add(land, "path", { class: "graticule", d: `M${at([lat, -20])}L${at([lat, 40])}` });
  for (let lon = -20; lon <= 40; lon += 1) add(land, "path", { class: "graticule", d: `M${at([40, lon])}L${at([62, lon])}` });
  add(land, "path", { class: "border", d: rounded(country.border, at) });
  for (const [start, bend, end] of country.roads) add(land, "path", { class: "road", d: `M${at(start)}Q${at(bend)} ${at(end)}` });
  for (const zone of country.zones) {
    const [cx, cy] = toPixels(...zone.center);
    const circle = add(land, "circle", { class: "closed", cx, cy, r: zone.radius_km * toPixels.pixelsPerKm });
    add(circle, "title").textContent = `closed: ${zone.name}`;
  }
  for (const [name, where] of Object.entries(country.cities)) {
    const [x, y] = toPixels(...where);
    add(land, "circle", { class: "city", cx: x, cy: y, r: 2.4 });
    if (width > 500 || name.length < 7) add(land, "text", { class: "name", x: x + 6, y: y + 4 }).textContent = name;
  }
  for (const truck of trucks.values()) move(truck);
}

// Returns a curve through the middles of the sides, with the corners as control points.
function rounded(corners, at) {
  const middle = (i) => at(corners[i].map((it, axis) => (it + corners[(i + 1) % corners.length][axis]) / 2));
  return `M${middle(corners.length - 1)}${corners.map((corner, i) => `Q${at(corner)} ${middle(i)}`).join("")}Z`;
}

function add(parent, name, attributes = {}) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return parent.appendChild(node);
}

// --- the trucks

function report([id, lat, lon, kmh, heading, at]) {
  const truck = trucks.get(id) ?? { id, node: newTruck(id) };
  trucks.set(id, Object.assign(truck, { lat, lon, kmh, heading, at }));
  move(truck);
}

function newTruck(id) {
  const node = add($("#trucks"), "g", { class: "truck", "data-truck": id });
  add(node, "circle", { class: "hit", r: 11 });
  add(node, "path");
  add(node, "title").textContent = id;
  node.addEventListener("click", () => choose(id));
  return node;
}

function move(truck) {
  const [x, y] = toPixels(truck.lat, truck.lon);
  truck.node.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
  const arrow = truck.node.querySelector("path");
  arrow.setAttribute("d", truck.kmh > 0 ? "M0 -7L5 5.5L0 3L-5 5.5Z" : "M-3.5 -3.5H3.5V3.5H-3.5Z");
  arrow.setAttribute("transform", truck.kmh > 0 ? `rotate(${truck.heading})` : "");
}

function stateOf(truck) {
  return silent.has(truck.id) ? "silent" : truck.kmh > 0 ? "moving" : "resting";
}

function choose(id) {
  chosen = chosen === id ? null : id;
  showStates();
}

function showStates() {
  const count = { moving: 0, resting: 0, silent: 0 };
  for (const truck of trucks.values()) {
    const state = stateOf(truck);
    count[state] += 1;
    truck.node.setAttribute("class", `truck ${state}${truck.id === chosen ? " chosen" : ""}`);
    if (state === "silent" && truck.state !== state) $("#trucks").append(truck.node); // on top
    truck.state = state;
  }
  for (const [state, many] of Object.entries(count)) $(`#${state}`).textContent = many;
  showChosen();
}

function showChosen() {
  const truck = trucks.get(chosen), box = $("#chosen");
  box.hidden = !truck;
  if (!truck) return;
  const name = document.createElement("strong");
  name.textContent = truck.id;
  const speed = stateOf(truck) === "silent" ? "silent" : `${truck.kmh.toFixed(0)} km/h`;
  box.replaceChildren(name, `${speed}, reported ${clock(truck.at)}`);
}

// --- the panels

function showSilent(ids) {
  silent = new Set(ids);
  if ($("#silences ul").dataset.ids === ids.join()) return;
  $("#silences ul").dataset.ids = ids.join();
  $("#silences .none").hidden = ids.length > 0;
  $("#silences ul").replaceChildren(...ids.map((id) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.textContent = id;
    button.addEventListener("click", () => choose(id));
    item.append(button);
    return item;
  }));
}

function showWindows(windows) {
  const last = windows[windows.length - 1];
  $("#statistics .none").hidden = true;
  $("#statistics .some").hidden = false;
  $("#window").textContent = `${clock(Date.parse(last.start))}: ${last.average_kmh} km/h on average, ${last.top_kmh} at most, ${last.reports} reports of ${last.trucks} trucks`;
  const chart = $("#chart"), top = 100;
  chart.setAttribute("viewBox", `0 0 ${windows.length * 10} ${top}`);
  chart.replaceChildren();
  windows.forEach((it, index) => {
    const bar = add(chart, "rect", { x: index * 10 + 1, width: 8, y: top - it.average_kmh, height: it.average_kmh });
    add(bar, "title").textContent = `${clock(Date.parse(it.start))}: ${it.average_kmh} km/h`;
  });
}

function showNews(items) {
  if (!items.length) return;
  news.push(...items);
  news.sort((a, b) => b.at - a.at).splice(NEWS_SHOWN);
  $("#news .none").hidden = true;
  $("#news ol").replaceChildren(...news.map((it) => {
    const item = document.createElement("li"), time = document.createElement("time"), text = document.createElement("span");
    item.className = `${it.is_over ? "over" : "opens"} ${it.subject === "silence" ? "silence" : "zone"}`;
    time.textContent = clock(it.at);
    text.textContent = it.text;
    item.append(time, text);
    return item;
  }));
}

// Draws a ring at the position of each alert, except those of the first frame.
function showAlerts(alerts) {
  new Map(alerts.map((it) => [it.truck_id, it])).forEach(ping);
}

function ping({ lat, lon, subject }) {
  const [cx, cy] = toPixels(lat, lon);
  const ring = add($("#alerts"), "circle", { class: `ping ${subject === "silence" ? "silence" : ""}`, cx, cy, r: 16 });
  $("#alerts").dataset.drawn = Number($("#alerts").dataset.drawn ?? 0) + 1;
  setTimeout(() => ring.remove(), 2000);
}

function clock(at) {
  return new Date(at).toISOString().slice(11, 16);
}

// --- the events

function show(frame) {
  if (frame.reset) {
    trucks.clear();
    news.length = 0;
    $("#trucks").replaceChildren();
  }
  frame.trucks.forEach(report);
  showSilent(frame.silent);
  showStates();
  if (frame.windows) showWindows(frame.windows);
  showNews(frame.news);
  if (!frame.reset) showAlerts(frame.alerts);
  $("#clock").textContent = frame.now ? new Date(frame.now).toISOString().slice(0, 16).replace("T", " ") + " UTC" : "waiting for the first report";
  $("#broken").textContent = frame.read ? `${(100 * frame.broken / frame.read).toFixed(1)} %` : "–";
  $("#broken").title = `${frame.broken} of ${frame.read} records read`;
}

function connect() {
  const events = new EventSource("/events");
  events.onopen = () => connection("live", "live");
  events.onerror = () => connection("lost", "connection lost, reconnecting");
  events.onmessage = (event) => show(JSON.parse(event.data));
}

function connection(state, text) {
  $("#connection").dataset.state = state;
  $("#connection").textContent = text;
}

fetch("/map").then((answer) => answer.json()).then((found) => {
  country = found;
  draw();
  new ResizeObserver(draw).observe($("#map"));
  connect();
});
