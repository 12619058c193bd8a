package snapshots

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// listed is one version, as list prints it.
type listed struct {
	ModelID string    `json:"model_id"`
	Version uint64    `json:"version"`
	Slot    int       `json:"slot"`
	Chunks  int       `json:"chunks"`
	Bytes   int       `json:"bytes"`
	Time    time.Time `json:"time"`
	Young   bool      `json:"young,omitempty"`
	Fault   string    `json:"fault,omitempty"` // why it cannot be read
}

func snapshotListCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the versions of every model on the snapshot topic",
		Long: `Lists what the snapshot topic holds, newest first: the last 16 versions of each model id, or 2 with model.by. One
that cannot be read is listed with the reason. With model.by these are the models of all values, of all partitions
of the topic; --model-id leaves out what is not wanted.`,
		Example: "  lca-stream snapshot list -c stream.yaml\n  lca-stream snapshot list -c stream.yaml --model-id '*/press-7'",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	var glob string
	c.Flags().StringVar(&glob, "model-id", "", "only the model of this `ID`, or those of a glob such as '*/press-7', in which * is any text")
	asJSON := c.Flags().Bool("json", false, "print one JSON object a version")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		return system.WithSystem(ctx, p, o, func(s *system.System) error {
			var all []listed
			err := s.EachSnapshots(ctx, glob, func(id string, a *snapshot.Assembler) error {
				all = append(all, list(a, id)...)
				return nil
			})
			if err != nil {
				return err
			}
			if *asJSON {
				for _, l := range all {
					if err := json.NewEncoder(p.Stdout).Encode(l); err != nil {
						return err
					}
				}
				return nil
			}
			if len(all) == 0 && glob != "" {
				_, err := fmt.Fprintf(p.Stdout, "no snapshot has an id like %q; * stands for any text and ? for one character, and `lca-stream snapshot list` shows all\n", glob)
				return err
			}
			return writeList(p.Stdout, all, time.Now())
		})
	})
}

// list returns the versions of a model.
func list(a *snapshot.Assembler, id string) []listed {
	var all []listed
	for _, e := range a.List(id) {
		l := listed{ModelID: id, Version: e.Version, Slot: e.Slot, Chunks: e.Chunks.Model + e.Chunks.Neighbours + e.Others, Bytes: e.Bytes, Time: e.Time.UTC(), Young: e.Young}
		if e.Fault != nil {
			l.Fault = e.Fault.Error()
		}
		all = append(all, l)
	}
	return all
}

func writeList(w io.Writer, all []listed, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no snapshots yet")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tVERSION\tAGE\tTIME\tSLOT\tCHUNKS\tBYTES\tSTATE")
	for _, l := range all {
		state := "ok"
		switch {
		case l.Fault != "":
			state = l.Fault
		case l.Young:
			state = "young"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%s\n", terminal.Name(l.ModelID), l.Version, app.Age(now.Sub(l.Time)), l.Time.Format(time.RFC3339), l.Slot, l.Chunks, l.Bytes, terminal.Line(state))
	}
	return t.Flush()
}
