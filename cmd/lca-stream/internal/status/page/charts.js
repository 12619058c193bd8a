// Drawing: axes, lines, and values under the pointer. Nothing here knows what is drawn.
const NS = 'http://www.w3.org/2000/svg', $ = id => document.getElementById(id);
const whole = v => Math.round(v).toLocaleString('en-GB');
const clock = t => new Date(t).toLocaleTimeString('en-GB');

function el(name, attributes, text) {
  const e = document.createElementNS(NS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text != null) e.textContent = text;
  return e;
}

// span is the range of values, with a share of it as room on both sides.
function span(values, pad) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) if (v != null) { lo = Math.min(lo, v); hi = Math.max(hi, v) }
  if (lo > hi) return [0, 1];
  const w = (hi - lo) * pad || Math.abs(hi) * .1 || 1;
  return [lo - w, hi + w];
}

// ticks are round numbers, about `most` of them.
function ticks(lo, hi, most) {
  const raw = (hi - lo) / most, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find(m => m * ten >= raw) * ten;
  const all = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) all.push(+(i * step).toPrecision(12));
  return all;
}

// plot clears a picture and draws its axes.
function plot(id, xs, ys, at, say) {
  const svg = $(id), { width: W, height: H } = svg.viewBox.baseVal, L = 44, B = 22, T = 8, R = 10;
  const x = v => L + (v - xs[0]) / (xs[1] - xs[0] || 1) * (W - L - R);
  const y = v => H - B - (v - ys[0]) / (ys[1] - ys[0] || 1) * (H - B - T);
  svg.replaceChildren(el('path', { class: 'axis', d: `M${L} ${T}V${H - B}H${W - R}` }));
  for (const v of at) {
    svg.append(el('path', { class: 'axis', d: `M${L - 4} ${y(v).toFixed(1)}H${W - R}` }));
    svg.append(el('text', { x: L - 8, y: y(v) + 4, 'text-anchor': 'end' }, say(v)));
  }
  return { svg, x, y,
    line(points, cls) {
      let d = '', pen = 'M';
      for (const [a, b] of points) { if (b == null) { pen = 'M'; continue } d += pen + x(a).toFixed(1) + ' ' + y(b).toFixed(1); pen = 'L' }
      if (d) svg.append(el('path', { class: cls, d }));
    },
    foot(v, text, anchor) { svg.append(el('text', { x: x(v), y: H - 6, 'text-anchor': anchor || 'middle' }, text)) } };
}

// note puts a text in place of a picture.
function note(id, text) {
  const svg = $(id), box = svg.viewBox.baseVal;
  svg.replaceChildren(el('text', { x: box.width / 2, y: box.height / 2, 'text-anchor': 'middle' }, text));
  values.delete(svg);
}

// Values under the pointer: each picture has points {x, y, text}, of which the nearest is shown.
const values = new Map();
let near = () => {}; // takes away what was marked last

function hover(svg, points, mark) { values.set(svg, { points, mark }) }

document.addEventListener('pointermove', e => {
  const svg = e.target.closest && e.target.closest('svg'), known = svg && values.get(svg), tip = $('tip');
  near();
  near = () => {};
  if (!known || !known.points.length) { tip.hidden = true; return }
  const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const far = p => known.mark ? Math.hypot(p.x - at.x, p.y - at.y) : Math.abs(p.x - at.x);
  const i = known.points.reduce((best, p, j) => far(p) < far(known.points[best]) ? j : best, 0);
  if (known.mark) near = known.mark(i);
  else {
    const ring = el('circle', { class: 'mark', r: 4, cx: known.points[i].x, cy: known.points[i].y });
    svg.append(ring);
    near = () => ring.remove();
  }
  tip.textContent = known.points[i].text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(e.clientX + 12, innerWidth - box.width - 8)) + 'px';
  tip.style.top = Math.max(4, e.clientY - box.height - 10) + 'px';
});
document.addEventListener('pointerleave', () => { near(); $('tip').hidden = true });
