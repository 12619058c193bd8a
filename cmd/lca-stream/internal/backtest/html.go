package backtest

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
)

// markup is a page in the making. The package html/template would do as well, but it finds methods by their names: then the linker has to keep the methods of all
// types, and the binary has 7 MB more.
type markup struct{ strings.Builder }

// add formats a piece of HTML. Strings among the arguments are text: they are escaped.
func (m *markup) add(format string, args ...any) {
	for i, a := range args {
		if text, is := a.(string); is {
			args[i] = html.EscapeString(text)
		}
	}
	fmt.Fprintf(&m.Builder, format, args...)
}

// html returns the page as a file that needs nothing else.
func (p *page) html() (string, error) {
	pictures, err := json.Marshal(p.Facts) // it leaves no < in a string, so nothing in it ends the script
	if err != nil {
		return "", err
	}
	var m markup
	m.add(pageHead, p.Title)
	m.WriteString("<style>" + status.CSS + reportCSS + "</style>\n</head>\n<body>\n")
	m.add("<header>\n  <h1>%s</h1><small>%s</small>\n</header>\n", p.Title, p.Made)
	for _, line := range p.Verdict {
		m.add(`<p class="verdict">%s</p>`+"\n", line)
	}
	m.WriteString("<main>\n")
	m.timeline(p)
	m.episodes(p)
	m.budgets(p)
	m.calibration(p)
	m.columns(p)
	m.live(p)
	m.WriteString("</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n<script>\n'use strict';\nconst facts = ")
	m.Write(pictures)
	m.WriteString(";\n" + status.ChartsJS + reportJS + "\n</script>\n</body>\n</html>\n")
	return m.String(), nil
}

const pageHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="lca-stream backtest">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>%s</title>
<link rel="icon" href="data:,">
`

func (m *markup) timeline(p *page) {
	m.WriteString(`<section class="wide" id="card-timeline">
  <h2>When</h2>
  <p><span class="key1">—</span> the most unusual row of each stretch, by how rarely the model expects one; <span class="key2">▮</span> episodes`)
	if p.Facts.Labelled {
		m.WriteString(`, <span class="key4">▮</span> labels`)
	}
	if len(p.Facts.Lanes) > 0 {
		m.WriteString("; below, the episodes of each series")
	}
	m.WriteString(`</p>
  <svg id="timeline" viewBox="0 0 1000 180" role="img" aria-label="how rare rows are, and episodes"></svg>
</section>
`)
}

func (m *markup) episodes(p *page) {
	for i, e := range p.Episodes {
		m.add(`<section class="wide episode" id="episode-%d" tabindex="-1">`+"\n  <h2>%s</h2>\n  <p>%s</p>\n", i, e.Title, e.About)
		if len(e.Columns) > 0 {
			m.WriteString(`  <div class="trio">` + "\n")
			for k, c := range e.Columns {
				m.add(`    <figure><svg id="e%dc%d" viewBox="0 0 340 130" role="img" aria-label="%s before and during the episode"></svg><figcaption>%s %s</figcaption></figure>`+"\n",
					i, k, c.Name, c.Name, c.Change)
			}
			m.WriteString("  </div>\n")
		}
		if e.More != "" {
			m.add("  <p>ranked lower, and perhaps no cause: %s</p>\n", e.More)
		}
		m.WriteString("</section>\n")
	}
	if len(p.Episodes) == 0 {
		m.WriteString(`<section class="wide"><h2>Episodes</h2><p>There is none: no row passed the level.</p></section>` + "\n")
	}
	if len(p.Others) > 0 {
		m.WriteString(`<section class="wide" id="card-others">` + "\n  <h2>More episodes</h2>\n" + `  <ol class="rows">`)
		for _, other := range p.Others {
			m.add("<li>%s</li>", other)
		}
		m.WriteString("</ol>\n</section>\n")
	}
}

func (m *markup) budgets(p *page) {
	if len(p.Budgets) == 0 {
		return
	}
	lines, heads := `<span class="key1">—</span> episodes`, ""
	if p.Facts.Labelled {
		lines, heads = `<span class="key1">—</span> false episodes, <span class="key2">╌</span> faults met`, "<th>false</th><th>faults met</th>"
	}
	m.WriteString(`<section id="card-budgets">
  <h2>What another budget would give</h2>
  <p>The same scores, with another number of false episodes that you could live with (alarms.budget). ` + lines + `</p>
  <svg id="budgets" viewBox="0 0 340 190" role="img" aria-label="episodes by budget"></svg>
  <table><thead><tr><th>budget</th><th>episodes</th>` + heads + "</tr></thead>\n  <tbody>")
	for _, b := range p.Budgets {
		row, name := "<tr>", b.Name
		if b.Taken {
			row, name = `<tr class="taken">`, name+" (this page)"
		}
		m.WriteString(row)
		m.add("<td>%s</td><td>%d</td>", name, b.Episodes)
		if p.Facts.Labelled {
			m.add("<td>%d</td><td>%d</td>", b.False, b.Met)
		}
		m.WriteString("</tr>")
	}
	m.WriteString("</tbody></table>\n</section>\n")
}

func (m *markup) calibration(p *page) {
	if len(p.Calibration) == 0 {
		return
	}
	m.add(`<section id="card-calibration">
  <h2>Are the probabilities right?</h2>
  <p>Of rows %s, as many should be below each p as it says. Rows that follow each other are alike, so it is never exact.</p>
  <table><thead><tr><th>p below</th><th>rows expected</th><th>found</th><th>times</th><th>of all rows</th></tr></thead>
  <tbody>`, p.Apart)
	for _, c := range p.Calibration {
		m.add("<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>", c.P, c.Expected, c.Found, c.Times, c.All)
	}
	m.WriteString("</tbody></table>\n</section>\n")
}

func (m *markup) columns(p *page) {
	m.WriteString(`<section class="wide" id="card-columns">` + "\n  <h2>What was read, and how</h2>\n")
	m.list(p.How)
	if len(p.Columns) > 0 {
		m.WriteString("  <h3>Columns that were not learnt</h3>\n")
		m.list(p.Columns)
	}
	m.WriteString("</section>\n")
}

func (m *markup) list(all []named) {
	m.WriteString("  <dl>")
	for _, n := range all {
		m.add("<div><dt>%s</dt><dd>%s</dd></div>", n.Name, n.Text)
	}
	m.WriteString("</dl>\n")
}

func (m *markup) live(p *page) {
	m.WriteString(`<section class="wide" id="card-live">` + "\n  <h2>Run it live</h2>\n")
	if p.YAML == "" {
		m.add("  <p>It was made with a configuration, which runs as it is: <code>%s</code></p>\n", p.Run)
	} else {
		m.add(`  <p>Save this as stream.yaml, put your brokers and your topic in, and start it: <code>%s</code> <button type="button" id="copy">copy</button></p>
  <pre id="yaml" tabindex="0">%s</pre>`+"\n", p.Run, p.YAML)
	}
	m.WriteString("</section>\n")
}
