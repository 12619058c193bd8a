// What is shown of /api/v1/status. It is asked for once per second, and every ten seconds in a tab that is not seen.
const put = (id, v) => { $(id).textContent = v };
const num = v => v == null ? '–' : v.toFixed(3);
const sum = o => Object.values(o || {}).reduce((a, b) => a + b, 0);
const age = s => s < 120 ? s.toFixed(0) + ' s' : s < 7200 ? (s / 60).toFixed(0) + ' min' : s < 172800 ? (s / 3600).toFixed(1) + ' h' : (s / 86400).toFixed(0) + ' d';

function spectrum(s) {
  const log = v => Math.log10(Math.max(v, 1e-9)), e = s.model.eigenvalues, now = e.map(log), d = now.length;
  const past = s.history.slice(0, -1).filter(p => p.eigenvalues.length === d).map(p => p.eigenvalues.map(log));
  const ys = span([0, ...now, ...past.flat()], .07), at = [];
  for (let t = Math.floor(ys[0]); t <= ys[1]; t++) for (const m of ys[1] - ys[0] > 2.5 ? [1] : [1, 2, 5]) { const v = log(m * 10 ** t); if (v >= ys[0] && v <= ys[1]) at.push(v) }
  const p = plot('spectrum', [.5, d + .5], ys, at, v => +(10 ** v).toPrecision(2));
  for (const h of past) p.line(h.map((v, i) => [i + 1, v]), 'was');
  p.svg.append(el('path', { class: 'cut', d: `M44 ${p.y(0).toFixed(1)}H330` }));
  p.line(now.map((v, i) => [i + 1, v]), 'one');
  now.forEach((v, i) => p.svg.append(el('circle', { class: i < s.model.d_parzen ? 'bar' : 'off', cx: p.x(i + 1).toFixed(1), cy: p.y(v).toFixed(1), r: d > 80 ? 1.5 : 3.2 })));
  p.foot(1, '1'); if (d > 1) p.foot(d, d + ' directions', 'end');
  hover(p.svg, now.map((v, i) => ({ x: p.x(i + 1), y: p.y(v), text: `direction ${i + 1}: e = ${e[i].toPrecision(3)}\n${i < s.model.d_parzen ? 'with' : 'without'} structure` })));
}

function curve(l) {
  const c = l.curve.filter(q => q.nll != null);
  if (c.length < 2) return note('curve', whole(l.rows) + ' rows learnt, none or few of them since the start');
  const ys = span(c.flatMap(q => [q.nll, q.gaussian]), .06), end = c[c.length - 1].rows;
  const p = plot('curve', [c[0].rows, end], ys, ticks(ys[0], ys[1], 5), v => +v.toPrecision(6));
  p.line(c.map(q => [q.rows, q.gaussian]), 'two');
  p.line(c.map(q => [q.rows, q.nll]), 'one');
  p.foot(c[0].rows, whole(c[0].rows), 'start'); p.foot(end, whole(end) + ' rows learnt', 'end');
  hover(p.svg, c.map(q => ({ x: p.x(q.rows), y: p.y(q.nll), text: `after ${whole(q.rows)} rows: ${num(q.nll)} nats per row\na single Gaussian: ${num(q.gaussian)}` })));
}

function throughput(all) {
  if (all.length < 2) return note('throughput', 'counting…');
  const t = all.map(q => Date.parse(q.time)), top = Math.max(1, ...all.flatMap(q => [q.in_per_second, q.out_per_second])) * 1.08;
  const p = plot('throughput', [t[0], t[t.length - 1]], [0, top], ticks(0, top, 4), v => v < 1e4 ? v : v / 1e3 + 'k');
  p.line(all.map((q, i) => [t[i], q.out_per_second]), 'two');
  p.line(all.map((q, i) => [t[i], q.in_per_second]), 'one');
  p.foot(t[0], clock(t[0]), 'start'); p.foot(t[t.length - 1], clock(t[t.length - 1]), 'end');
  hover(p.svg, all.map((q, i) => ({ x: p.x(t[i]), y: p.y(q.in_per_second), text: `${clock(t[i])}\n${whole(q.in_per_second)} rows read per second\n${whole(q.out_per_second)} rows whitened per second\n${whole(q.lag_records)} records behind` })));
}

function drift(history) {
  const v = history.map(h => h.turned_radians.map(a => a * 180 / Math.PI)), n = Math.max(v.length, 6);
  const top = Math.max(1, ...v.flat()) * 1.08;
  const p = plot('drift', [-.5, n - .5], [0, top], ticks(0, top, 4), a => a + '°');
  v.forEach((all, i) => all.forEach((a, j) => {
    if (j === all.length - 1) p.svg.append(el('rect', { class: 'bar', rx: 1, x: p.x(i - .32).toFixed(1), width: (p.x(.32) - p.x(-.32)).toFixed(1), y: p.y(a).toFixed(1), height: Math.max(p.y(0) - p.y(a), 1).toFixed(1) }));
  }));
  v.forEach((all, i) => all.slice(0, -1).forEach(a => p.svg.append(el('path', { class: 'mark', d: `M${p.x(i - .32).toFixed(1)} ${p.y(a).toFixed(1)}H${p.x(i + .32).toFixed(1)}` }))));
  if (v.length) p.foot(-.5, clock(history[0].published), 'start');
  if (v.length === 2) p.foot(1 - .32, clock(history[1].published), 'start'); // two bars are so near that the times would overlap
  if (v.length > 2) p.foot(v.length < 6 ? v.length - 1 : n - .5, clock(history[v.length - 1].published), v.length < 6 ? 'middle' : 'end');
  hover(p.svg, v.map((all, i) => ({ x: p.x(i), y: p.y(all.length ? all[all.length - 1] : 0), text: `${clock(history[i].published)}, version ${whole(history[i].version)}\n${all.length ? 'turned by ' + all[all.length - 1].toFixed(2) + '°' : 'the first'}` })));
}

// cloud draws points, and moves those that are there already. It returns where they are.
function cloud(id, points, labels, same) {
  const range = i => { // without the outermost half per cent, so that one outlier does not shrink all
    const v = points.map(p => p[i]).filter(q => q != null).sort((a, b) => a - b), cut = Math.floor(v.length / 200);
    return span([v[cut], v[v.length - 1 - cut]], .06);
  };
  const svg = $(id), W = 340, H = 230, xs = range(0), ys = range(1);
  if (same) { // directions have a unit in common: a circle must stay a circle
    const unit = Math.max((xs[1] - xs[0]) / W, (ys[1] - ys[0]) / H), wide = (r, n) => { const m = (r[0] + r[1]) / 2; r[0] = m - unit * n / 2; r[1] = m + unit * n / 2 };
    wide(xs, W); wide(ys, H);
  }
  let dots = [...svg.querySelectorAll('circle')];
  if (!dots.length) svg.replaceChildren(el('rect', { class: 'axis', x: .5, y: .5, width: W - 1, height: H - 1, rx: 4 }));
  while (dots.length > points.length) dots.pop().remove();
  const at = points.map(([a, b]) => ({ x: 2 + (a - xs[0]) / (xs[1] - xs[0]) * (W - 4), y: H - 2 - (b - ys[0]) / (ys[1] - ys[0]) * (H - 4) }));
  at.forEach((q, i) => {
    const inside = q.x > 1 && q.x < W - 1 && q.y > 1 && q.y < H - 1;
    if (!dots[i]) svg.append(dots[i] = el('circle', { r: 2 }));
    dots[i].setAttribute('class', 'dot' + (labels && labels[i] >= 0 ? ' l' + labels[i] % 10 : ''));
    dots[i].setAttribute('cx', q.x.toFixed(1)); dots[i].setAttribute('cy', q.y.toFixed(1));
    dots[i].setAttribute('visibility', inside ? 'visible' : 'hidden');
  });
  return at;
}

function rows(s) {
  const c = s.scatter;
  $('card-rows').hidden = !c;
  if (!c) return;
  put('rows-about', `${c.before.length} rows that the model keeps as neighbours. Left: the two columns that vary most. Right: the two directions with the most structure.` +
    (c.labels ? ' Colours are the true labels, which the learner never sees.' : ''));
  put('before-axes', 'before: ' + c.before_axes.join(' and ')); put('after-axes', 'after: ' + c.after_axes.join(' and '));
  const both = [['before', c.before, c.before_axes, false], ['after', c.after, c.after_axes, true]].map(([id, points, axes, same]) => ({ id, points, axes, at: cloud(id, points, c.labels, same) }));
  const mark = i => {
    const dots = both.map(b => $(b.id).querySelectorAll('circle')[i]);
    for (const d of dots) d.classList.add('near');
    return () => { for (const d of dots) d.classList.remove('near') };
  };
  for (const b of both) hover($(b.id), b.at.map((q, i) => ({ ...q, text: b.axes.map((a, j) => `${a}: ${b.points[i][j]}`).join('\n') + (c.labels && c.labels[i] >= 0 ? '\nlabel ' + c.labels[i] : '') })), mark);
}

function directions(list) {
  $('card-directions').hidden = !list.length;
  $('directions').replaceChildren(...list.map(d => {
    const li = document.createElement('li'), e = document.createElement('small'), chips = document.createElement('div');
    e.textContent = 'e = ' + d.eigenvalue.toPrecision(2);
    chips.append(...d.features.map(f => {
      const chip = document.createElement('span'), bar = document.createElement('i');
      chip.className = 'chip'; bar.style.width = Math.abs(f.weight) * 100 + '%'; if (f.weight < 0) bar.className = 'off';
      chip.append(f.feature + ' ' + (f.weight < 0 ? '−' : '+') + Math.abs(f.weight).toFixed(2), bar);
      return chip;
    }));
    li.append(e, chips);
    return li;
  }));
}

function lag(by) {
  const all = Object.keys(by).sort((a, b) => a - b), most = 16;
  put('lag-sum', all.length ? whole(sum(by)) : '–');
  const top = Math.max(1, ...all.map(p => by[p]));
  $('lag').replaceChildren(...all.slice(0, most).map(p => {
    const one = document.createElement('span'), bar = document.createElement('i');
    bar.style.width = by[p] / top * 100 + '%';
    one.append(p + ': ' + whole(by[p]), bar);
    return one;
  }), all.length > most ? '… ' + all.length + ' partitions' : all.length ? '' : '–');
}

// once says how rare a probability is, as far as the model's rows can tell.
const once = (p, least) => p < least ? 'less than once in ' + whole(Math.round(1 / least)) : 'once in ' + whole(Math.round(1 / p));

function scores(all) {
  $('card-scores').hidden = !all.length;
  if (!all.length) return;
  const total = all.reduce((n, b) => n + b.rows, 0), height = n => Math.log10(n + 1);
  const expected = all.map((b, i) => total * (b.p - (i ? all[i - 1].p : 0))), top = height(Math.max(...all.map(b => b.rows), ...expected)) * 1.05;
  const p = plot('scores', [-.5, all.length - .5], [0, top], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(e => height(10 ** e)).filter(v => v <= top), v => { const n = Math.round(10 ** v - 1); return n < 1e4 ? n : '10^' + Math.round(v) });
  const across = i => `M${p.x(i - .38).toFixed(1)} ${p.y(height(expected[i])).toFixed(1)}H${p.x(i + .38).toFixed(1)}`;
  all.forEach((b, i) => {
    if (b.rows) p.svg.append(el('rect', { class: 'bar', rx: 1, x: p.x(i - .38).toFixed(1), width: (p.x(.38) - p.x(-.38)).toFixed(1), y: p.y(height(b.rows)).toFixed(1), height: (p.y(0) - p.y(height(b.rows))).toFixed(1) }));
    p.svg.append(el('path', { class: 'mark', d: across(i) }));
  });
  p.foot(-.5, 'never', 'start'); p.foot(all.length - .5, 'always', 'end');
  const rare = all.findIndex(b => b.p >= 1e-3);
  if (rare > 0) p.foot(rare, 'once in 1,000');
  hover(p.svg, all.map((b, i) => ({ x: p.x(i), y: p.y(height(b.rows)), text: `p ${i ? 'from ' + all[i - 1].p + ' to' : 'up to'} ${b.p}\n${whole(b.rows)} rows, ${expected[i] < 10 ? expected[i].toPrecision(2) : whole(expected[i])} expected` })));
}

// valueOf is the value that a model of one value belongs to: the last part of its id. null: it is the model of all rows.
function valueOf(id) {
  const part = id.split('/')[2];
  try { return part === undefined ? null : decodeURIComponent(part) } catch { return part } // not UTF-8
}

function modelLink(id, value) {
  const a = document.createElement('a');
  a.href = '?model=' + encodeURIComponent(id); a.textContent = value || '(empty)'; a.title = id;
  return a;
}

function strangest(found) {
  const list = found.rows.slice(0, 6);
  $('card-strangest').hidden = !list.length;
  $('strangest').replaceChildren(...list.map(r => {
    const li = document.createElement('li'), where = document.createElement('small'), why = document.createElement('div');
    const of = valueOf(r.model_id);
    where.append(`${clock(r.time)} ${once(r.p, r.least_p)}: `, ...of === null ? [] : [modelLink(r.model_id, of), ', '], `${r.source.topic}/${r.source.partition}@${r.source.offset}, row ${r.source.row}`);
    where.title = `score ${r.score.toFixed(2)} nats, p ${r.p}, by version ${r.version}`;
    why.append(...r.why.slice(0, 3).map(f => { const chip = document.createElement('span'); chip.className = 'chip'; chip.textContent = `${f.feature} ${f.nats.toFixed(1)}`; return chip }));
    li.append(where, why);
    return li;
  }));
}

// episodes shows when each was open, and then each in words, those that are open first.
function episodes(s) {
  const e = s.episodes, all = e ? e.open.concat(e.closed) : [], most = 12;
  $('card-episodes').hidden = !e;
  if (!e) return;
  put('episodes-about', (e.count ? `${whole(e.count)} open` : 'none is open') + `, ${whole(e.opened)} opened by this process; ` + 'stretches in which a series is unusual; lca-stream episodes show ID has more of each, episodes accept ID says that it is normal now');
  const timed = all.filter(r => r.from.time), now = Date.now(), end = r => r.type === 'episode_closed' ? Date.parse(r.to.time) : now;
  const first = Math.min(now - 3600e3, ...timed.map(r => Date.parse(r.from.time))), last = Math.max(now, ...timed.map(end));
  const x = t => 10 + (t - first) / (last - first) * 980, day = t => last - first > 864e5 ? new Date(t).toLocaleDateString('en-GB') + ' ' + clock(t) : clock(t);
  const svg = $('episodes-time');
  svg.toggleAttribute('hidden', !timed.length);
  svg.replaceChildren(el('path', { class: 'axis', d: 'M10 20H990' }), el('text', { x: 10, y: 38 }, day(first)), el('text', { x: 990, y: 38, 'text-anchor': 'end' }, day(last)));
  for (const r of timed.reverse()) { // those that are open over the others
    const from = x(Date.parse(r.from.time));
    svg.append(el('rect', { class: r.type === 'episode_closed' ? 'bar' : 'off', x: from.toFixed(1), y: 6, height: 14, width: Math.max(3, x(end(r)) - from).toFixed(1) }));
  }
  hover(svg, timed.map(r => ({ x: x((Date.parse(r.from.time) + end(r)) / 2), y: 13, text: r.message })));
  $('episodes').replaceChildren(...all.slice(0, most).map(r => {
    const li = document.createElement('li'), what = document.createElement('small'), why = document.createElement('div');
    what.textContent = (r.type === 'episode_closed' ? '' : 'open: ') + r.message; what.title = r.type === 'episode_closed' ? r.id : `normal now? lca-stream episodes accept ${r.id}`;
    const trace = e.traces && e.traces[r.id] || [];
    why.append(...r.causes.slice(0, 3).map((c, k) => { const chip = document.createElement('span'); chip.className = 'chip'; chip.textContent = `${c.feature} ${c.direction}, ${short(c.before)} → ${short(c.now)}`; if (trace[k]) chip.append(spark(c.before, trace[k])); return chip }));
    li.append(what, why);
    return li;
  }));
  const more = e.count - e.open.slice(0, most).length;
  if (more > 0) { const li = document.createElement('li'); li.textContent = `… and ${whole(more)} more that are open`; $('episodes').append(li) }
}

// spark draws how a column has gone since an episode began, behind what it was before.
function spark(before, points) {
  const svg = el('svg', { class: 'spark', viewBox: '0 0 80 16', role: 'img', 'aria-label': 'before, and since the episode began' });
  const known = points.concat(before == null ? [] : before).filter(v => v != null), low = Math.min(...known), high = Math.max(...known);
  const y = v => (high > low ? 14 - 12 * (v - low) / (high - low) : 8).toFixed(1), step = 58 / Math.max(1, points.length - 1);
  if (before != null) svg.append(el('path', { class: 'was', d: `M1 ${y(before)}H20` }));
  svg.append(el('polyline', { class: 'one', points: points.map((v, i) => v == null ? '' : `${(21 + i * step).toFixed(1)},${y(v)}`).join(' ') }));
  return svg;
}
const short = v => v == null ? '–' : +v.toPrecision(3);

function choice(c) {
  $('card-choice').hidden = !c;
  if (!c) return;
  const taken = c.candidates.find(t => t.taken), before = c.candidates[0], most = 8;
  const best = [...c.candidates].sort((a, b) => (a.nll ?? Infinity) - (b.nll ?? Infinity)).filter((t, i) => i < most || t.taken);
  const passed = best.some(t => t.nll < taken.nll) ? 'lower is better, but what is lower than the one taken does not lead surely, or leads by little with narrower kernels:' : 'lower is better:';
  const judged = c.beginning ? 'on these rows, each without itself' : 'on rows held out from the fits, which the first and the Gaussian have learnt', stays = c.beginning ? 'The model begins with the first fit. ' : 'The current one stays. ';
  put('choice-about', `After ${whole(c.rows)} rows, ${c.candidates.length} settings were compared ${judged}. ` +
    (taken === before ? stays : `Taken: ${taken.name}, ${num(before.nll - taken.nll)} nats per row better. `) + `The best ${best.length}; ${passed}`);
  $('choice').replaceChildren(...best.map(t => {
    const li = document.createElement('li'), name = document.createElement('span'), nll = document.createElement('small');
    name.textContent = `${t.name}, ${t.d_parzen} with structure` + (t.taken ? ' ✓' : ''); name.title = t.kernel + ' kernel';
    name.className = t.taken ? 'taken' : '';
    nll.textContent = t.nll == null ? 'collapsed' : num(t.nll) + ' nats per row';
    li.append(name, nll);
    return li;
  }));
}

// instances lists the members of the group, if there are others.
function instances(s) {
  const all = s.instances || [], most = 12;
  $('card-instances').hidden = all.length < 2;
  if (all.length < 2) return;
  put('instances-about', `the ${whole(s.members)} members of group ${s.group}, and the partitions of ${s.source} that each has`);
  const list = (ids, n) => ids.slice(0, n).join(', ') + (ids.length > n ? ', … ' + whole(ids.length) + ' in all' : '');
  $('instances').replaceChildren(...all.slice(0, most).map(m => {
    const li = document.createElement('li'), who = document.createElement('small'), what = document.createElement('div');
    who.textContent = `${m.name}, ${m.this ? 'this one' : 'at ' + m.host}`;
    what.textContent = (m.partitions.length ? 'partitions ' + list(m.partitions, 16) : 'none: more members than partitions') + (m.foreign ? '; another program: its rows are not whitened' : '');
    li.append(who, what);
    return li;
  }));
  if (s.members > most) { const li = document.createElement('li'); li.textContent = `… and ${whole(s.members - most)} more`; $('instances').append(li) }
}

// The table of models that belong to one value each: a page of it, in an order that a click on a column's name changes.
const columns = [['value', 'value'], ['partition', 'partition'], ['rows_learnt', 'rows learnt'], ['version', 'version'], ['gain', 'gain, nats per row'], ['alarms', 'changes'], ['anomalies', 'anomalies'], ['last_row', 'last row'], ['in_memory', 'in memory']];
const table = { sort: 'rows_learnt', order: 'desc', offset: 0, size: 25 };
const only = new URLSearchParams(location.search).get('model');

async function models() {
  const found = await ask(`models?offset=${table.offset}&limit=${table.size}&sort=${table.sort}&order=${table.order}`);
  if (!found.models.length && table.offset) { table.offset = 0; return models() }
  const button = (name, text) => { const b = document.createElement('button'); b.type = 'button'; b.textContent = text + (table.sort === name ? table.order === 'desc' ? ' ↓' : ' ↑' : ''); b.onclick = () => { table.order = table.sort === name && table.order === 'desc' ? 'asc' : 'desc'; table.sort = name; table.offset = 0; models().catch(() => {}) }; return b };
  const cell = (tag, of) => { const c = document.createElement(tag); c.append(of); return c };
  const line = cells => { const tr = document.createElement('tr'); tr.append(...cells); return tr };
  if (!document.activeElement || document.activeElement.closest('#models thead') === null || $('models').tHead.textContent === '')
    $('models').tHead.replaceChildren(line(columns.map(([name, text]) => cell('th', button(name, text)))));
  else $('models').tHead.querySelectorAll('button').forEach((b, i) => { b.textContent = button(...columns[i]).textContent });
  $('models').tBodies[0].replaceChildren(...found.models.map(m => line(columns.map(([name]) => cell('td', modelCell(m, name))))));
  put('models-about', `${whole(found.total)} models of the partitions that this process works on; a value leads to its model`);
  put('models-place', found.total ? `${whole(found.offset + 1)} to ${whole(found.offset + found.models.length)}` : '');
  $('models-before').disabled = !table.offset; $('models-after').disabled = table.offset + found.models.length >= found.total;
}

function modelCell(m, name) {
  if (name === 'value') return modelLink(m.id, m.value);
  if (name === 'gain') return m.version ? num(m.gain) : '–';
  if (name === 'last_row') return m.last_row ? clock(m.last_row) : '–';
  if (name === 'in_memory') return m.in_memory ? 'yes' : 'no';
  return whole(m[name]);
}

for (const [id, way] of [['models-before', -1], ['models-after', 1]]) $(id).onclick = () => { table.offset = Math.max(0, table.offset + way * table.size); models().catch(() => {}) };

// work says what the process works on, and what has gone wrong.
function work(s) {
  put('state', s.ready.ready ? 'ready' : 'not ready');
  $('state').className = s.ready.ready ? 'ok' : 'bad';
  put('summary', s.summary);
  put('names', [s.source && `topic ${s.source}` + (s.output ? ` → topic ${s.output}` : ''), s.group && 'group ' + s.group, s.instance && 'instance ' + s.instance, s.models && only && 'rows, their scores and the strangest are those of all models'].filter(Boolean).join(' · '));
  put('about', s.build.version + ', up ' + age(s.uptime_seconds));
  put('model', s.model || s.model_id ? 'model ' + (s.model ? s.model.id : s.model_id) : '');
  put('commit', s.last_commit ? age(Math.max(0, (Date.now() - Date.parse(s.last_commit)) / 1000)) : '–');
  $('trouble').hidden = !s.last_error;
  if (s.last_error) put('trouble', 'Last error, ' + clock(s.last_error.time) + ': ' + s.last_error.text);
  const young = s.model && s.model.young;
  $('card-warmup').hidden = !s.warmup && !young; $('warmup-bar').hidden = !s.warmup;
  if (!s.warmup) put('warmup', young || '');
  else {
    put('warmup', (s.warmup.wanted ? `${whole(s.warmup.rows)} of ${whole(s.warmup.wanted)} rows collected` + (s.warmup.reason && '; ') : '') + s.warmup.reason);
    $('warmup-bar').max = s.warmup.wanted || 1; $('warmup-bar').value = s.warmup.rows;
  }
}

let seen = [];
function counts(s) {
  seen = [...seen.slice(-5), { at: s.uptime_seconds, rows: s.rows }].filter(q => q.at <= s.uptime_seconds); // a process that was restarted counts from 0
  const first = seen[0], seconds = s.uptime_seconds - first.at;
  for (const k of ['in', 'learnt', 'skipped', 'out']) {
    put(k, whole(s.rows[k]));
    if (seconds > 0) put(k + '-rate', whole((s.rows[k] - first.rows[k]) / seconds));
  }
  if (s.rows.skipped) put('skipped', whole(s.rows.skipped) + ', ' + (100 * s.rows.skipped / (s.rows.skipped + s.rows.learnt)).toFixed(1) + ' %');
  lag(s.lag_records);
  const without = s.passed_records.no_model || 0;
  $('unmodelled').hidden = !without; put('no-model', whole(without));
  put('dead', whole(sum(s.dead_letters))); put('rejected', whole(sum(s.rejected_rows))); put('aborted', whole(s.transactions_aborted)); put('snapshots', whole(s.rows.snapshots));
}

function constants(l) {
  const named = l.constant_features, more = l.constant_columns - named.length;
  return named.length ? named.join(', ') + (more ? ` and ${whole(more)} more` : '') : '0';
}

let latest = null, shown = -1;
function show(s) {
  latest = s;
  document.body.className = '';
  work(s); episodes(s); instances(s); counts(s); throughput(s.throughput); scores(s.scores);
  const m = s.model, l = s.learner, nll = (l || m || {}).nll, gauss = (l || m || {}).gaussian_nll;
  put('nll', num(nll)); put('gnll', num(gauss)); put('gain', nll == null || gauss == null ? '–' : num(gauss - nll));
  const learns = l || s.warmup, none = s.models > 0 && !m; // of many models none is chosen
  for (const id of ['version', 'age', 'gain']) $(id).closest('.tile').hidden = none;
  $('card-learnt').hidden = none;
  for (const e of document.querySelectorAll('.learns, #card-curve')) e.hidden = !learns;
  if (l) { put('eff', whole(Math.round(l.effective_neighbours))); put('alarms', whole(l.drift_alarms)); put('gated', whole(l.gated_rows)); put('constant', constants(l)); curve(l) }
  else note('curve', 'no row has been learnt yet');
  for (const id of ['spectrum', 'drift', 'rows', 'directions', 'choice']) if (!m) $('card-' + id).hidden = true;
  if (!m) return;
  const grown = !m.young;
  put('version', whole(m.version)); put('age', age(m.age_seconds));
  put('d', m.d); put('dp', m.d_parzen); put('dg', m.d_gaussian);
  if (shown === m.version) return;
  shown = m.version;
  $('card-spectrum').hidden = !grown;
  if (!grown) return;
  $('card-drift').hidden = !s.history.some(h => h.turned_radians.length); // the first model of all has not turned
  spectrum(s); drift(s.history); directions(m.directions); choice(m.choice); rows(s);
}

async function ask(what) {
  const r = await fetch('api/v1/' + what, { cache: 'no-store' });
  if (!r.ok) throw new Error(r.status);
  return r.json();
}

let polls = 0;
async function poll() {
  try {
    const s = await ask(only ? 'status?model=' + encodeURIComponent(only) : 'status');
    show(s);
    $('card-models').hidden = !s.models;
    if (polls++ % 5 === 0) { strangest(await ask('strangest')); if (s.models) await models() }
  } catch (e) {
    put('state', 'no answer from the process'); $('state').className = 'bad'; document.body.className = 'gone';
    put('summary', 'The process does not answer: what is shown is what it said last.');
  }
  setTimeout(poll, document.hidden ? 10000 : only ? 5000 : 1000); // one model of many is read from the topic each time
}
poll();
