// The pictures of a backtest. What they show also stands in the page as text, or in a table.
const when = b => b.At == null ? 'row ' + whole(b.Row) : new Date(b.At).toISOString().slice(0, 16).replace('T', ' ');
const rarity = p => -Math.log10(Math.max(p, 1e-12));
const short = v => v == null ? '–' : +v.toPrecision(4);
const ten = v => v < 1 ? 'any' : v < 5 ? '1 in ' + whole(10 ** v) : '1 in 10^' + v;

function timeline() {
  const svg = $('timeline'), bins = facts.Bins, lanes = facts.Lanes || [], wide = Math.max(320, svg.clientWidth || 1000), head = 196, lane = 16;
  svg.setAttribute('viewBox', `0 0 ${wide} 190`);
  if (!bins.length) return note('timeline', 'there were too few rows');
  const at = b => facts.Timed ? b.At : b.Row, top = Math.max(3, ...bins.map(b => rarity(b.P))) * 1.15;
  const xs = [at(bins[0]), facts.Timed ? facts.LastAt : facts.LastRow], levels = ticks(0, top, 4).filter(v => v === Math.round(v));
  const p = plot('timeline', xs, [0, top], levels, v => v ? '10^' + -v : '1');
  const across = (a, b) => { const x = p.x(a); return { x: x.toFixed(1), width: Math.max(2, p.x(b) - x).toFixed(1) } };
  for (const s of facts.Labels || []) svg.append(el('rect', { class: 'label', ...across(s[0], s[1]), y: 6, height: 5 }));
  p.line(bins.map(b => [at(b), b.P === 1 ? null : rarity(b.P)]), 'one');
  facts.Spans.forEach(s => svg.append(el('rect', { class: 'off', ...across(s.From, s.To), y: 0, height: 5 })));
  p.foot(xs[0], when(bins[0]), 'start'); p.foot(xs[1], facts.Timed ? when({ At: facts.LastAt }) : 'row ' + whole(facts.LastRow), 'end');
  lanes.forEach((name, i) => {
    const y = head + 4 + i * lane;
    svg.append(el('path', { class: 'axis', d: `M44 ${y + 8}H${wide - 10}` }), el('text', { x: 44, y: y + 4 }, name));
  });
  svg.setAttribute('viewBox', `0 0 ${wide} ${lanes.length ? head + 8 + lanes.length * lane : 190}`);
  facts.Spans.forEach(s => {
    const band = el('rect', { class: s.Lane < 0 ? 'band' : 'off', ...across(s.From, s.To), y: s.Lane < 0 ? 8 : head + 8 + s.Lane * lane, height: s.Lane < 0 ? 160 : 8 });
    if (s.Card < 0) return svg.append(band);
    const a = el('a', { href: '#episode-' + s.Card, 'aria-label': s.Text });
    a.append(band);
    svg.append(a);
  });
  hover(svg, bins.map(b => ({ x: p.x(at(b)), y: p.y(rarity(b.P)), text: `${when(b)}\n${b.P === 1 ? 'no score' : 'p ' + b.P.toPrecision(2)}` })));
}

function columns(e, i) {
  e.Low.forEach((lows, k) => {
    const points = lows.map((low, j) => ({ Low: low, High: e.High[k][j], Row: e.Row[j], Rows: e.Rows[j] })), id = `e${i}c${k}`, ys = span(points.flatMap(q => [q.Low, q.High]), .08), last = points.length - 1;
    if (last < 1) return note(id, 'no numbers');
    const p = plot(id, [0, last], ys, ticks(ys[0], ys[1], 3), short), begins = e.From, ends = e.To;
    p.svg.append(el('rect', { class: 'band', x: p.x(begins).toFixed(1), width: Math.max(2, p.x(ends) - p.x(begins)).toFixed(1), y: 8, height: 100 }));
    p.line(points.flatMap((q, j) => q.Low == null ? [[j, null]] : q.Low === q.High ? [[j, q.Low]] : [[j, q.Low], [j, q.High]]), 'one');
    p.foot(0, 'before', 'start'); p.foot(begins, 'episode', begins > last / 2 ? 'end' : 'start');
    hover(p.svg, points.map((q, j) => ({ x: p.x(j), y: p.y(q.High ?? ys[0]), text: `row ${whole(q.Row)}${q.Rows > 1 ? ' and ' + whole(q.Rows - 1) + ' more' : ''}\n${short(q.Low)}${q.Low === q.High ? '' : ' to ' + short(q.High)}` })));
  });
}

function budgets() {
  const all = facts.Budgets || [];
  if (!all.length) return;
  const count = b => facts.Labelled ? b.False : b.Episodes, height = n => Math.log10(n + 1), top = height(Math.max(1, ...all.map(b => Math.max(b.Episodes, b.Met || 0)))) * 1.08;
  const p = plot('budgets', [0, all.length - 1], [0, top], [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000].map(height).filter(v => v <= top), v => Math.round(10 ** v - 1));
  if (facts.Labelled) p.line(all.map((b, i) => [i, height(b.Met)]), 'two');
  p.line(all.map((b, i) => [i, height(count(b))]), 'one');
  const taken = all.findIndex(b => b.Taken);
  p.svg.append(el('circle', { class: 'bar', r: 4, cx: p.x(taken), cy: p.y(height(count(all[taken]))) }));
  p.foot(0, all[0].Name, 'start'); p.foot(all.length - 1, all[all.length - 1].Name, 'end');
  hover(p.svg, all.map((b, i) => ({ x: p.x(i), y: p.y(height(count(b))), text: `${b.Name}\n${whole(b.Episodes)} episodes` + (facts.Labelled ? `\n${whole(b.False)} false, ${whole(b.Met)} faults met` : '') })));
}

timeline(); facts.Drawn.forEach(columns); budgets();
addEventListener('resize', timeline); addEventListener('beforeprint', timeline);

if ($('copy')) $('copy').onclick = async () => {
  const text = $('yaml').textContent;
  try { await navigator.clipboard.writeText(text) } catch { // where the browser does not let a file do that
    getSelection().selectAllChildren($('yaml'));
    document.execCommand('copy');
  }
  $('copy').textContent = 'copied';
};
