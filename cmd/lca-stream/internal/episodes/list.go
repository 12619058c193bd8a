package episodes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

// What list shows without --all.
const (
	shownDays = 7
	shownMost = 200
)

func listCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the episodes that alarms.topic tells of, open ones first",
		Long: fmt.Sprintf(`Lists the episodes on alarms.topic, each by its last record: those that are open, then those with a record of
the last %d days, the newest first, at most %d. --json prints these records as they are, a line each.`, shownDays, shownMost),
		Example: "  lca-stream episodes list -c stream.yaml\n  lca-stream episodes list -c stream.yaml --json | jq -r 'select(.type != \"episode_closed\") | .message'",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	all := c.Flags().Bool("all", false, "list all that the topic tells of")
	asJSON := c.Flags().Bool("json", false, "print the last record of each episode, a line each")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		t, topic, err := toldOf(ctx, p, o, "")
		if err != nil {
			return err
		}
		now := time.Now()
		some, notes := t.shown(topic, *all, now)
		if *asJSON {
			for _, e := range some {
				if _, err := p.Stdout.Write(append(bytes.Clone(e.value), '\n')); err != nil {
					return err
				}
			}
			_, err = io.WriteString(p.Stderr, notes) // so that each line of the output is a record
			return err
		}
		if err := writeList(p.Stdout, some, now); err != nil {
			return err
		}
		_, err = io.WriteString(p.Stdout, notes)
		return err
	})
}

// shown returns what is listed, in order, and says what is not.
func (t *told) shown(topic string, all bool, now time.Time) (some []*entry, notes string) {
	ordered := t.inOrder()
	since := now.AddDate(0, 0, -shownDays)
	for _, e := range ordered {
		if all || (e.open || e.at.After(since)) && len(some) < shownMost {
			some = append(some, e)
		}
	}
	switch left := len(ordered) - len(some); {
	case len(ordered) == 0:
		notes = fmt.Sprintf("%s tells of no episode yet%s\n", terminal.Name(topic), t.besides())
	case len(some) == 0:
		notes = fmt.Sprintf("no episode is open, and none has a record of the last %d days; --all lists %d that are older\n", shownDays, left)
	case left > 0:
		notes = fmt.Sprintf("%d more are left out: --all lists them\n", left)
	}
	return some, notes + t.passed()
}

// besides says what else is on a topic without episodes.
func (t *told) besides() string {
	switch t.others {
	case 0:
		return ""
	case 1:
		return "; its only record is of another kind, such as an alarm of the learner"
	}
	return fmt.Sprintf("; its %d records are of other kinds, such as alarms of the learner", t.others)
}

func writeList(w io.Writer, some []*entry, now time.Time) error {
	if len(some) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STATE\tSINCE\tLASTED\tROWS\tLAST RECORD\tSERIES\tCAUSE\tID")
	for _, e := range some {
		r, err := e.record()
		if err != nil {
			return err
		}
		rows := "-"
		if !e.alone {
			rows = strconv.FormatInt(r.Rows, 10) + more(r)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s ago\t%s\t%s\t%s\n", state(r), since(r), lasted(r), rows, app.Age(now.Sub(e.at)), seriesOf(r, short), firstCause(r), terminal.Name(e.id))
	}
	return t.Flush()
}

// state is whether an episode is open, or why it is closed.
func state(r *episode.Record) string {
	text := "open"
	if r.Type == episode.Closed {
		text = "closed"
		if r.Reason != nil {
			text += ": " + short(*r.Reason)
		}
	}
	if r.Young {
		text += " (young)"
	}
	return text
}

func since(r *episode.Record) string {
	if r.From.Time == nil {
		return position(r.From)
	}
	return r.From.Time.UTC().Format(time.RFC3339)
}

func position(p episode.Place) string { return fmt.Sprintf("offset %d, row %d", p.Offset, p.Row) }

// lasted is the time from the first row to the last one that was unusual.
func lasted(r *episode.Record) string {
	if r.From.Time == nil || r.To.Time == nil {
		return "-"
	}
	return app.Age(r.To.Time.Sub(*r.From.Time)) + more(r)
}

// more is behind what one that is open had reached at its last record.
func more(r *episode.Record) string {
	if r.Type == episode.Closed {
		return ""
	}
	return "+"
}

// seriesOf names the series.
func seriesOf(r *episode.Record, name func(string) string) string {
	if r.Series == nil {
		return episode.Named(nil, r.Partition)
	}
	return name(*r.Series)
}

func firstCause(r *episode.Record) string {
	if len(r.Causes) == 0 {
		return "-"
	}
	return short(r.Causes[0].Feature) + " " + short(r.Causes[0].Direction)
}

// short is a name that leaves room for the other columns of a table.
func short(name string) string {
	const most = 40
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most-1]) + "…"
	}
	return terminal.Name(name)
}
