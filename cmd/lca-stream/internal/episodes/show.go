package episodes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

func showCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show an episode: since when, how unusual, and which columns have changed",
		Long: `Shows what alarms.topic told of an episode last: where it began and was last unusual, how far its scores went, and the
columns that have changed most. ` + "`lca-stream episodes list`" + ` shows the ids.`,
		Example: "  lca-stream episodes show default/0/PRESS-07/17956.0 -c stream.yaml",
		Args:    app.Takes(1, 1),
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	asJSON := c.Flags().Bool("json", false, "print the record, one JSON object")
	return app.Command(c, func(ctx context.Context, args []string) error {
		t, topic, err := toldOf(ctx, p, o, args[0])
		if err != nil {
			return err
		}
		r, err := t.record(topic, args[0])
		if err != nil {
			_, _ = io.WriteString(p.Stderr, t.passed())
			return err
		}
		e := t.last[args[0]]
		if *asJSON {
			_, err := p.Stdout.Write(append(bytes.Clone(e.value), '\n'))
			return err
		}
		_, err = io.WriteString(p.Stdout, describe(r, e.accepted, time.Since(e.at)))
		return err
	})
}

// reasons say why an episode is closed.
var reasons = map[string]string{
	episode.Usual:         "its rows are usual again",
	episode.Silent:        "its series has had no row for a day",
	episode.Evicted:       "there were too many series, so that this one was given up",
	episode.ModelReplaced: "its model is another one now, or has other features",
	episode.Reset:         "offsets were set back, and its rows come again",
	episode.Accepted:      "someone said that this is normal",
	episode.Aged:          "it has lasted for lca.accept_after, and is the new normal",
	episode.Returned:      "it was normal before, and is again",
}

// describe is an episode for people; age is that of its last record, and a says that it was accepted.
func describe(r *episode.Record, a *episode.Acceptance, age time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", terminal.Line(r.Message))
	fmt.Fprintf(&b, "id         %s\n", terminal.Name(r.ID))
	fmt.Fprintf(&b, "state      %s; the last record is %s old\n", whyClosed(r), app.Age(age))
	b.WriteString(acceptance(r, a))
	fmt.Fprintf(&b, "series     %s: of partition %d of %s, group %s\n", seriesOf(r, terminal.Name), r.Partition, terminal.Name(r.Topic), terminal.Name(r.Group))
	fmt.Fprintf(&b, "from       %s: its first row\n", place(r.From))
	if !known(r) {
		b.WriteString("           what else was told of it is compacted away, until its next record\n")
		return b.String()
	}
	fmt.Fprintf(&b, "to         %s: its last unusual row%s\n", place(r.To), soFar(r))
	fmt.Fprintf(&b, "rows       %s of the series from there to there, %d of them above the level of their time\n", plural.Count(r.Rows, "row"), r.RowsOver)
	fmt.Fprintf(&b, "peak       %s at offset %d, row %d; the probability of such a score is %s\n", app.Known(r.Peak.Score), r.Peak.Offset, r.Peak.Row, app.Maybe(r.Peak.P))
	fmt.Fprintf(&b, "level      %s, by a budget of %s\n", app.Known(r.Level), terminal.Line(r.Budget))
	if r.Young {
		b.WriteString("           young: the model knew too few rows to be sure of this level\n")
	}
	fmt.Fprintf(&b, "model      %s, version %d\n", terminal.Name(r.ModelID), r.Version)
	b.WriteString(causes(r))
	return b.String()
}

// acceptance says whether it was accepted, or how it can be.
func acceptance(r *episode.Record, a *episode.Acceptance) string {
	switch {
	case a == nil && r.Type == episode.Closed:
		return ""
	case a == nil:
		return fmt.Sprintf("           if this is normal now: lca-stream episodes accept %s\n", terminal.Name(r.ID))
	case a.Rows == nil:
		return fmt.Sprintf("accepted   by %s at %s; the learner has not followed yet\n", terminal.Name(a.By), when(a.Time))
	}
	learnt := "learns " + plural.Count(*a.Rows, "row") + " that it had held back"
	if *a.Rows == 0 {
		learnt = "had held back none of its rows that are not learnt already, or not kept any more"
	}
	return fmt.Sprintf("accepted   by %s; the learner has followed at %s, and %s\n", terminal.Name(a.By), when(a.Time), learnt)
}

func when(at *time.Time) string {
	if at == nil {
		return "an unknown time"
	}
	return at.UTC().Format(time.RFC3339)
}

func whyClosed(r *episode.Record) string {
	if r.Type == episode.Closed && r.Reason != nil && reasons[*r.Reason] != "" {
		return "closed: " + reasons[*r.Reason]
	}
	return strings.TrimSuffix(state(r), " (young)")
}

func soFar(r *episode.Record) string {
	if r.Type == episode.Closed {
		return ""
	}
	return " so far"
}

func place(p episode.Place) string {
	text := position(p)
	if p.Time != nil {
		text = p.Time.UTC().Format(time.RFC3339) + ", " + text
	}
	return text
}

// shownCauses are in the table: the last of many has hardly changed.
const shownCauses = 3

// causes is a table of the columns that have changed.
func causes(r *episode.Record) string {
	if len(r.Causes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CAUSE\tDIRECTION\tBEFORE\tNOW\tONSET")
	for _, c := range r.Causes[:min(len(r.Causes), shownCauses)] {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", terminal.Name(c.Feature), terminal.Name(c.Direction), app.Maybe(c.Before), app.Maybe(c.Now), onset(c.Onset))
	}
	_ = t.Flush() // into memory
	var lower []string
	for _, c := range r.Causes[min(len(r.Causes), shownCauses):] {
		lower = append(lower, terminal.Name(c.Feature)+" "+terminal.Name(c.Direction))
	}
	if len(lower) > 0 {
		fmt.Fprintf(&b, "ranked lower, and perhaps no cause: %s (--json has all of them)\n", strings.Join(lower, ", "))
	}
	now := "that of the last rows at the record before this one"
	switch {
	case r.Type != episode.Closed:
		now = "that of the last rows at this record"
	case r.Reason != nil && *r.Reason == episode.Usual:
		now = "that of its rows"
	}
	fmt.Fprintf(&b, "before: the mean of the series when the episode opened; now: %s; onset: when the column changed\n", now)
	return b.String()
}

// onset is when a column changed.
func onset(rows *int) string {
	switch {
	case rows == nil:
		return "unknown"
	case *rows == 0:
		return "at the first row"
	case *rows < 0:
		return plural.Count(-*rows, "row") + " before the first"
	}
	return plural.Count(*rows, "row") + " after the first"
}
