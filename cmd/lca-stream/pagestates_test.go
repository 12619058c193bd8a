package main

import (
	"fmt"
	"strings"
	"testing"
)

// twoEpisodes changes an answer to that of a process that tells episodes; the demo has no topic for them.
const twoEpisodes = `episodes: {count: 1, opened: 2, traces: {'m/0/press 7/5.0': [[4, 4.5, 5, 4.9], [.5, null, .5]]},
	open: [{type: 'episode_updated', id: 'm/0/press 7/5.0', message: 'press 7: vib_x went up at 10:14; 840 rows so far', rows: 840, from: {time: new Date(Date.now() - 6e5).toISOString()}, to: {time: null}, causes: [{feature: 'vib_x', direction: 'up', before: 3.96, now: 4.961}, {feature: 'motor', direction: 'quiet', before: null, now: 0.5}]}],
	closed: [{type: 'episode_closed', id: 'm/0/press 1/1.0', message: 'press 1: vib_y became noisy', rows: 40, from: {time: new Date(Date.now() - 9e5).toISOString()}, to: {time: new Date(Date.now() - 8e5).toISOString()}, causes: []}]}`

// threeInstances changes an answer to that of a group with two more members; the demo is alone in its group.
const threeInstances = `members: 3, instances: [{name: 'pump-0', host: '10.0.0.1', partitions: [0, 2], this: true}, {name: 'pump-1', host: '10.0.0.2', partitions: [1]}, {name: 'billing', host: '10.0.0.3', partitions: [], foreign: true}]`

// What happens to the process shows on the page.
func TestPageOfAProcessThatIsGone(t *testing.T) {
	b := startBrowser(t)
	d := startDemo(t)
	b.open(t, d.url)
	d.stop(t)
	b.wait(t, `document.getElementById('state').textContent === 'no answer from the process'`)
}

// withoutEmptyCards shows states that this demo is not in: only what there is to say of them has a card.
func withoutEmptyCards(t *testing.T, b *browser) {
	t.Helper()
	for name, c := range map[string]struct{ change, shown, hidden, says string }{
		"a transform":          {`learner: undefined, warmup: undefined`, `#card-rows, #card-spectrum`, `#card-curve, #card-warmup, .learns, #trouble`, ``},
		"before the first row": {`learner: undefined, model: undefined, scatter: undefined, history: [], scores: [], warmup: {rows: 0, wanted: 0, reason: 'no message with rows has come'}`, `#card-warmup, #card-curve`, `#card-rows, #card-spectrum, #card-drift, #card-directions, #card-choice, #card-scores`, `no message with rows has come`},
		"the first model":      {`history: [{ ...latest.history[0], turned_radians: [] }]`, `#card-spectrum, #card-rows`, `#card-drift`, ``},
		"after a restart":      {`learner: { ...latest.learner, rows: 69800, curve: [] }`, `#card-curve`, `#card-warmup`, `69,800 rows learnt, none or few of them since the start`},
		"collecting rows":      {`learner: undefined, model: undefined, scatter: undefined, history: [], scores: [], warmup: {rows: 58, wanted: 200, reason: 'rows with a null: 2'}`, `#card-warmup`, `#card-rows`, `58 of 200 rows collected; rows with a null: 2`},
		"alone in its group":   {`members: 1, instances: [{name: 'pump-0', host: '10.0.0.1', partitions: [0, 1, 2], this: true}]`, `#card-rows`, `#card-instances`, ``},
		"episodes":             {twoEpisodes, `#card-episodes, .chip .spark`, `#card-warmup`, `open: press 7: vib_x went up at`},
		"three instances":      {threeInstances, `#card-instances`, `#card-warmup`, `another program: its rows are not whitened`},
		"many models":          {`models: 60, model: undefined, passed_records: {no_model: 12345}`, `#no-model`, `#card-learnt, .tile:has(#gain), .tile:has(#age), .tile:has(#version)`, `12,345`},
		"without a broker":     {`ready: {ready: false, reason: 'no broker has answered for 12s'}, summary: 'Not working: no broker has answered for 12s.', last_error: {time: '2026-11-22T12:00:00Z', text: 'retrying: refused'}`, `#trouble`, `#card-warmup`, `retrying: refused`},
	} {
		wrong := eval[string](t, b, fmt.Sprintf(`(() => {
			const before = latest, seen = e => e.offsetParent !== null || e.getClientRects().length > 0;
			shown = -1; show({ ...latest, %s });
			const wrong = [...document.querySelectorAll(%q)].filter(e => !seen(e)).map(e => 'hidden: ' + e.id)
				.concat([...document.querySelectorAll(%q)].filter(seen).map(e => 'shown: ' + e.id + e.className))
				.concat([...document.querySelectorAll('main section')].filter(e => seen(e) && !e.querySelector('svg > *, dd, li, progress')).map(e => 'empty: ' + e.innerText));
			if (!document.body.innerText.includes(%q)) wrong.push(document.body.innerText);
			shown = -1; show(before);
			return wrong.join('\n');
		})()`, c.change, c.shown, c.hidden, c.says))
		if wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

// modelTable shows the models of a fleet, which this demo is not: a page of them, in the order that was asked for, each with a
// link to its own view, as the strangest rows have. A process without such models has no table.
func modelTable(t *testing.T, b *browser) {
	t.Helper()
	if eval[bool](t, b, `!document.getElementById('card-models').hidden`) {
		t.Error("a table of models without model.by")
	}
	eval[bool](t, b, `(() => {
		window.real = ask; window.asked = '';
		const one = i => ({ id: 'm/' + i % 2 + '/press-' + i, partition: i % 2, value: 'press-' + i, version: 100 * i, rows_learnt: 100 * i + 7, in_memory: i % 3 > 0, last_row: i ? '2026-11-23T12:00:00Z' : null, gain: i / 10, alarms: i, anomalies: 2 * i });
		ask = async what => {
			if (what === 'status') return { ...await real(what), models: 60 };
			if (what === 'strangest') { const all = await real(what); for (const r of all.rows) r.model_id = 'm/1/press%207'; return all }
			if (!what.startsWith('models')) return real(what);
			asked = what;
			const q = new URLSearchParams(what.slice(7)), from = +q.get('offset');
			return { total: 60, offset: from, models: Array.from({ length: Math.max(0, Math.min(60 - from, +q.get('limit'))) }, (_, i) => one(from + i)) };
		};
		return true;
	})()`)
	b.wait(t, `!document.getElementById('card-models').hidden && document.querySelectorAll('#models tbody tr').length === 25`)
	for _, step := range []struct{ do, asked, shows string }{
		{`true`, `models?offset=0&limit=25&sort=rows_learnt&order=desc`, "1 to 25"},
		{`document.getElementById('models-after').click()`, `models?offset=25&limit=25&sort=rows_learnt&order=desc`, "26 to 50"},
		{`document.getElementById('models-after').click()`, `models?offset=50&limit=25&sort=rows_learnt&order=desc`, "51 to 60"},
		{`[...document.querySelectorAll('#models th button')].find(e => e.textContent.startsWith('gain')).click()`, `models?offset=0&limit=25&sort=gain&order=desc`, "1 to 25"},
		{`[...document.querySelectorAll('#models th button')].find(e => e.textContent.startsWith('gain')).click()`, `models?offset=0&limit=25&sort=gain&order=asc`, "1 to 25"},
	} {
		eval[bool](t, b, `(() => { `+step.do+`; return true })()`)
		b.wait(t, fmt.Sprintf(`asked === %q && document.getElementById('models-place').textContent === %q`, step.asked, step.shows))
	}
	row := eval[string](t, b, `[...document.querySelectorAll('#models tbody tr')][3].innerText.replace(/\s+/g, ' ').trim()`)
	if want := "press-3 1 307 300 0.300 3 6 "; !strings.HasPrefix(row, want) || !strings.HasSuffix(row, " no") {
		t.Errorf("a model's row is %q, want %q…no", row, want)
	}
	if href := eval[string](t, b, `document.querySelector('#models tbody a').getAttribute('href')`); href != "?model=m%2F0%2Fpress-0" {
		t.Errorf("a model's link is %q", href)
	}
	b.wait(t, `document.querySelector('#strangest a')?.textContent === 'press 7' && document.querySelector('#strangest a').getAttribute('href') === '?model=m%2F1%2Fpress%25207'`)
	for _, width := range []int64{400, 1280} {
		b.look(t, "light", width)
		legible(t, b, "light", width)
	}
	eval[bool](t, b, `(() => { ask = real; return true })()`)
	b.wait(t, `document.getElementById('card-models').hidden`)
}

// longNames gives topics, hosts, features and errors the longest names that there may be: nothing hangs over the edge of a
// narrow screen.
func longNames(t *testing.T, b *browser) {
	t.Helper()
	eval[bool](t, b, `(() => {
		const name = 'n'.repeat(249), before = ask;
		ask = async what => {
			const a = await before(what);
			for (const r of a.rows.length ? a.rows : []) { r.source.topic = name; for (const f of r.why) f.feature = name }
			return what !== 'status' ? a : { ...a, source: name, output: name, group: name, instance: name, model_id: name, members: 2,
				instances: [{name, host: name, partitions: [0, 1, 2], this: true}, {name, host: name, partitions: []}],
				lag_records: Object.fromEntries([...Array(300).keys()].map(i => [i, 123456789])),
				ready: {ready: false, reason: name}, summary: 'Not working: ' + name, last_error: {time: '2026-11-22T12:00:00Z', text: name} };
		};
		return true;
	})()`)
	b.wait(t, `['summary', 'names', 'trouble', 'strangest', 'instances'].every(id => document.getElementById(id).innerText.includes('n'.repeat(249)))`)
	for _, width := range []int64{400, 1280} {
		b.look(t, "light", width)
		legible(t, b, "light", width)
	}
}
