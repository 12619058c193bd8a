package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// errNothingUsable is returned if a topic has messages, and none of them can be used.
var errNothingUsable = errors.New("no message can be used")

// summary says what the messages have in common.
func (i *inspection) summary(topic string) error {
	if i.json {
		return i.verdict(topic)
	}
	err := i.endRun()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s can be used, with %s, %d of them invalid\n", topic, plural.Count(i.usable, "message"), plural.Count(i.allRows, "row"), i.wasted)
	if i.nulls > 0 {
		fmt.Fprintf(&b, "%s without a value (tombstones)\n", plural.Count(i.nulls, "message"))
	}
	for _, code := range slices.Sorted(maps.Keys(i.rejected)) {
		fmt.Fprintf(&b, "%s cannot: %s\n", plural.Count(i.rejected[code], "message"), code)
	}
	if i.survey.Rows > 0 {
		b.WriteByte('\n')
		writeColumns(&b, &i.survey)
		i.newest.write(&b)
		if i.alarms {
			b.WriteString("\nThe topic is alarms.topic: nothing is learnt from it.\n")
		} else if i.choice(&b); i.survey.Rows < minibatch.JudgedRows {
			fmt.Fprintf(&b, "\n%s: too few to judge columns by their values. From %d on that finds constants, labels and counters; -n looks at more messages.\n",
				plural.Count(i.survey.Rows, "row"), minibatch.JudgedRows)
		}
	}
	if _, e := io.WriteString(i.out, b.String()); e != nil {
		err = errors.Join(err, e)
	}
	return errors.Join(err, i.verdict(topic))
}

// constantRows is how many rows may be alike before that is said of them.
const constantRows = 10

// verdict returns an error if no model can be learnt from what is there: what it lacks, and what to do.
func (i *inspection) verdict(topic string) error {
	switch {
	case i.usable == 0 && len(i.rejected) > 0:
		// The error speaks of the key of a configuration, which there may not be yet.
		why := strings.Replace(i.first.Error, "set source.registry.url", "set source.registry.url (here --registry URL)", 1)
		return fmt.Errorf("%s: %w; the first, %d@%d: %s", topic, errNothingUsable, i.first.Partition, i.first.Offset, why)
	case i.usable+i.nulls == 0:
		return fmt.Errorf("%s: the topic is empty: write some rows first", topic)
	case i.allRows == 0:
		return fmt.Errorf("%s: no message has a row: write some first", topic)
	}
	if err := i.barren(); err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	return nil
}

// barren returns an error if there are rows, and nothing can be learnt from them.
func (i *inspection) barren() error {
	used, names := map[string]*minibatch.Column{}, []string{}
	for _, j := range i.survey.Judge() {
		names = append(names, j.Column.Name)
		if i.features != nil && slices.Contains(i.features.Names, j.Column.Name) {
			used[j.Column.Name] = j.Column
		}
	}
	for _, name := range i.columns {
		if i.features != nil && len(i.columns) > 1 && int64(i.wasted) == i.allRows && !slices.Contains(names, name) {
			question := typo.Question(name, names)
			if question != "" {
				question = ": " + question
			}
			return fmt.Errorf("no row has a column %q, which source.features names%s", name, question)
		}
	}
	if i.allRows > 0 && int64(i.wasted) == i.allRows {
		return fmt.Errorf("no row can be used, because each has a feature that is null, text, NaN, infinite or of another width%s: name columns in source.features that have numbers together",
			i.nullest(used))
	}
	constant := i.allRows >= constantRows && len(used) > 0
	for _, c := range used {
		constant = constant && c.Distinct == 1
	}
	if constant {
		return fmt.Errorf("no feature varies in %s: write rows that do, or name other columns in source.features", plural.Count(i.allRows, "row"))
	}
	return nil
}

// nullest says which features are null in most rows, at most three of them.
func (i *inspection) nullest(used map[string]*minibatch.Column) string {
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(numberless(used[b], i.survey.Rows)-numberless(used[a], i.survey.Rows), strings.Compare(a, b))
	})
	var said []string
	for _, name := range names[:min(len(names), 3)] {
		if n := numberless(used[name], i.survey.Rows); n > 0 {
			said = append(said, fmt.Sprintf("%s in %d of %d", terminal.Name(name), n, i.survey.Rows))
		}
	}
	if said == nil {
		return ""
	}
	return " (" + strings.Join(said, ", ") + ")"
}

// numberless is the number of rows in which a column has no number.
func numberless(c *minibatch.Column, rows int) int { return rows - c.Rows + c.Nulls + c.Invalid }

// choice writes which features source.features picks, and the line that names those that the columns propose.
func (i *inspection) choice(b *strings.Builder) {
	proposed, _ := i.survey.Features()
	if i.features != nil {
		fmt.Fprintf(b, "\n%s", plural.Count(i.features.Dim(), "feature"))
		if len(i.columns) == 0 {
			b.WriteString(", because source.features is empty")
		}
		b.WriteString("\n  " + strings.Join(shortened(terminal.Names(i.features.Names), 20), ", ") + "\n")
	}
	switch {
	case len(proposed) == 0:
	case i.features != nil && minibatch.Chosen(proposed, i.features.Names) && len(i.columns) > 0:
	case len(i.columns) > 0 && i.features != nil && i.survey.Rows < minibatch.JudgedRows && i.has(i.columns):
		// So few rows do not tell a feature from a constant or a label.
	case len(i.columns) > 0:
		b.WriteString("\nThe columns propose others; for a new model:\n\n  " + config.FeaturesLine(proposed) + "\n")
	case i.features != nil && !minibatch.Chosen(proposed, i.features.Names):
		b.WriteString("\nThe first message, by which an empty source.features chooses, shows less. Paste this under source: instead:\n\n  " + config.FeaturesLine(proposed) + "\n")
	default:
		b.WriteString("\nTo name them, paste this under source:\n\n  " + config.FeaturesLine(proposed) + "\n")
	}
}

// has says whether a row has each of the columns.
func (i *inspection) has(columns []string) bool {
	var names []string
	for _, j := range i.survey.Judge() {
		names = append(names, j.Column.Name)
	}
	return !slices.ContainsFunc(columns, func(name string) bool { return !slices.Contains(names, name) })
}

// writeColumns writes a table with a line for each column.
func writeColumns(w io.Writer, s *minibatch.Survey) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COLUMN\tTYPE\tNULLS\tDISTINCT\tMIN\tMEAN\tMAX\tVERDICT")
	for _, j := range s.Judge() {
		c := j.Column
		verdict := "left out: " + j.Reason
		if j.Feature {
			verdict = strings.TrimSuffix("feature: "+j.Reason, ": ")
		}
		if j.Feature && !c.List && numberless(c, s.Rows) == s.Rows {
			verdict = "no number in any row"
		}
		if c.Invalid > 0 {
			verdict += fmt.Sprintf(" (%d text, NaN or infinite)", c.Invalid)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Name(c.Name), terminal.Line(c.Type.String()), share(c.Nulls+s.Rows-c.Rows, s.Rows), distinct(c), figure(c.Min), figure(c.Mean), figure(c.Max), terminal.Line(verdict))
	}
	_ = t.Flush() // w is memory
}

func share(part, whole int) string {
	if part == 0 {
		return "0"
	}
	percent := 100 * float64(part) / float64(whole)
	if percent < 10 {
		return fmt.Sprintf("%d (%.2g%%)", part, percent)
	}
	return fmt.Sprintf("%d (%.0f%%)", part, math.Floor(percent)) // not 100% unless it is all
}

func distinct(c *minibatch.Column) string {
	switch {
	case c.Distinct == 0:
		return "-"
	case c.Distinct >= minibatch.CountedValues:
		return fmt.Sprintf("≥%d", minibatch.CountedValues)
	}
	return fmt.Sprint(c.Distinct)
}

func figure(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.4g", x)
}

// sample is the newest message that can be used, as text.
type sample struct {
	at, key, headers, row string
}

func (s *sample) take(m *source.Message, v *verdict) {
	*s = sample{at: fmt.Sprintf("%d@%d", v.Partition, v.Offset), key: v.Key}
	var headers, values []string
	for _, h := range m.Headers {
		headers = append(headers, terminal.Name(h.Key)+"="+printable(h.Value))
	}
	for i, c := range m.Record.Columns() {
		text := c.ValueStr(0)
		if len(text) > 40 {
			text = text[:40] + "…"
		}
		values = append(values, terminal.Name(m.Record.ColumnName(i))+"="+printable([]byte(text)))
	}
	s.headers, s.row = strings.Join(headers, ", "), strings.Join(shortened(values, 20), ", ")
}

func (s *sample) write(b *strings.Builder) {
	if s.at == "" {
		return
	}
	fmt.Fprintf(b, "\nnewest message, %s\n  key      %s\n  headers  %s\n  row      %s\n", s.at, orNone(s.key), orNone(s.headers), s.row)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
