package backtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
)

// showColumns says what was read and how, and why columns were not learnt.
func (b *backtest) showColumns(p *page) {
	f := b.flags
	how := func(name, format string, a ...any) { p.How = append(p.How, named{name, fmt.Sprintf(format, a...)}) }
	how("learnt", "%s: %s", plural.Count(len(b.lanes.features), "column"), shownNames(b.lanes.features))
	p.How = append(p.How, b.choice.said...)
	if f.until != "" {
		how("normal stretch", "up to %s, learnt before the first row was scored", f.until)
	}
	if b.first >= 0 {
		how("scores", "from row %d on, by %s, each learnt from the rows before", b.first, plural.Count(b.lanes.published, "model version"))
	}
	how("preset", "%v", b.config.LCA.Preset)
	for _, text := range b.bad.texts() {
		how("passed over", "%s", text)
	}
	for _, field := range b.choice.columns {
		if len(p.Columns) == mostRows {
			p.Columns = append(p.Columns, named{"…", plural.Count(len(b.choice.columns)-mostRows, "more column")})
			break
		}
		if why := b.why(field); why != "" {
			p.Columns = append(p.Columns, named{brief(field.Name), brief(why)})
		}
	}
}

// why says why a column is not learnt; "": it is.
func (b *backtest) why(column named) string {
	learnt := func(name string) bool {
		return name == column.Name || strings.HasPrefix(name, column.Name+".") || strings.HasPrefix(name, column.Name+"[")
	}
	f := b.flags
	switch {
	case slices.ContainsFunc(b.lanes.features, learnt):
		return ""
	case column.Name == f.time, column.Name == b.columns.clock && column.Name != "":
		return "it says when a row was"
	case column.Name == b.columns.labels && column.Name != "":
		return "labels judge, and are not learnt"
	case column.Name == b.columns.key || column.Name == b.columns.model || column.Name == b.columns.series:
		return "it says whose row it is"
	}
	for _, j := range b.leftOut {
		if j.Column.Name == column.Name {
			return j.Reason
		}
	}
	if column.Text != "" {
		return column.Text
	}
	return "it is not among the features that were named"
}

func shownNames(names []string) string {
	const most = 40
	var all []string
	for _, name := range names[:min(len(names), most)] {
		all = append(all, brief(name))
	}
	text := strings.Join(all, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// mostYAML bounds the configuration that a page shows, bytes.
const mostYAML = 64 << 10

// showLive says how the pipeline of the page is run on a topic.
func (b *backtest) showLive(p *page) {
	if file := b.flags.config; file != "" {
		p.Run = "lca-stream run -c " + file
		return
	}
	c := *b.config
	c.Source.Topic = topicOf(b.flags.inputs[0])
	c.Source.Features = minibatch.ColumnsOf(b.lanes.features)
	c.Alarms.Budget = b.told.rates.Budget
	starter := config.Starter{Config: &c, By: b.choice.explained}
	for _, one := range p.Columns {
		starter.LeftOut = append(starter.LeftOut, terminal.Line(one.Name+": "+one.Text))
	}
	text := starter.String()
	if len(text) > mostYAML {
		p.YAML = "# The names of the columns are too long for a page: name them in source.features of a configuration of your own.\n"
		return
	}
	again, err := config.Load(config.Input{File: "-", Stdin: strings.NewReader(text), Getenv: func(string) (string, bool) { return "x", true }})
	if err != nil {
		p.YAML = "# These names make no configuration by themselves: " + terminal.Line(err.Error()) + "\n"
		return
	}
	p.YAML = text
	had := config.Keys(again)
	for i, k := range config.Keys(&c) {
		section, _, _ := strings.Cut(k.Path, ".")
		if value := k.String(); slices.Contains([]string{"lca", "minibatch", "model"}, section) && value != had[i].String() {
			p.Run += fmt.Sprintf(" --set %s=%s", k.Path, value)
		}
	}
}

// topicOf is a topic's name made of that of a file.
func topicOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name, "-"); name == "" {
		return "events"
	}
	return name[:min(len(name), 100)]
}
