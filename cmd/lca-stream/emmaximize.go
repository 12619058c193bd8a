package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// maximized is the JSON object of `em maximize --json`.
type maximized struct {
	NLL         float64 `json:"nll"`          // of the model that the sums were taken under
	GaussianNLL float64 `json:"gaussian_nll"` // of a single Gaussian
	Rows        uint64  `json:"rows"`
	Invalid     uint64  `json:"invalid_rows"`
	Parts       int     `json:"parts"`
	Parzen      int     `json:"d_parzen"` // of the next model, as all that follows
	Gaussian    int     `json:"d_gaussian"`
	Neighbours  int     `json:"neighbours"`
	Version     uint64  `json:"model_version"`
	Fingerprint string  `json:"fingerprint"`
}

func maximizeCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "maximize",
		Short: "Make the next model of the sums of all parts (the M-step)",
		Long: `Merges what em expect wrote, by the numbers of the parts, and writes the next model. The sums must be those under --model, and
no part may come twice. The NLL that is printed is that of --model, over all rows: EM has converged when it no longer falls.`,
		Example: `  lca-stream em maximize --model model.arrows --input a.sums.arrows --input b.sums.arrows -o next.arrows --json`,
	}
	var model, output string
	var inputs, notes []string
	var asJSON, force bool
	c.Flags().StringVar(&model, "model", "", "the model `FILE` that the sums were taken under")
	c.Flags().StringArrayVar(&inputs, "input", nil, "read the sums of `FILE`, of the files of a quoted pattern, or of standard input (-); may be repeated")
	outputFlags(c, &output, &force, models, "write the next model to `FILE`, or to standard output (-)")
	c.Flags().StringArrayVar(&notes, "metadata", nil, "note `KEY=VALUE` in the model's metadata, such as where its rows come from; may be repeated. The models that follow keep it")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	required(c, "model", "input", "output")
	return command(c, func(_ context.Context, _ []string) error {
		if output == "-" && asJSON {
			return usageError("--json and --output - would both go to standard output")
		}
		if err := mayWriteStream(output, models, force); err != nil {
			return err
		}
		extra, err := metadataOf(notes)
		if err != nil {
			return err
		}
		return maximize(p, model, inputs, extra, output, asJSON)
	})
}

// metadataOf parses KEY=VALUE. Keys that begin with lca. are those of the format, of this version or a later one.
func metadataOf(notes []string) (map[string]string, error) {
	extra := map[string]string{}
	for _, note := range notes {
		key, value, ok := strings.Cut(note, "=")
		if !ok || key == "" || strings.HasPrefix(key, "lca.") || !utf8.ValidString(note) {
			return nil, usageError("--metadata %q; want KEY=VALUE in UTF-8, and a key that does not begin with lca.", note)
		}
		extra[key] = value
	}
	return extra, nil
}

func maximize(p *program, path string, inputs []string, extra map[string]string, output string, asJSON bool) error {
	last, err := readSnapshotFile(path)
	if err != nil {
		return err
	}
	under, err := snapshot.StatisticsOf(last, producer())
	if err != nil {
		return err
	}
	if inputs, err = matches(inputs); err != nil {
		return err
	}
	var parts []*lca.Statistics
	for _, input := range inputs {
		s, err := readSums(p, input, under)
		if err != nil {
			return fmt.Errorf("%s: %w", input, err)
		}
		parts = append(parts, s.Parts...)
	}
	model, err := last.Model.Maximize(parts)
	if err != nil {
		return err
	}
	for key, value := range last.Extra {
		if _, said := extra[key]; !said {
			extra[key] = value
		}
	}
	next := &snapshot.Snapshot{
		Model: model, ModelID: last.ModelID, Version: last.Version + model.Info.Learnt, Parent: last.Version, Features: last.Features,
		Producer: producer(), Extra: extra,
	}
	if err := p.writeOutput(output, func(w io.Writer) error { return snapshot.WriteFile(w, next) }); err != nil {
		return err
	}
	r := maximized{
		NLL: model.Info.NLL, GaussianNLL: model.Info.GaussianNLL, Rows: model.Info.Learnt, Parts: len(parts), Parzen: model.Parzen(), Gaussian: model.Gaussian(),
		Neighbours: len(model.Neighbours) / model.Dim, Version: next.Version,
	}
	for _, s := range parts {
		r.Invalid += s.Invalid
	}
	if r.Fingerprint, err = snapshot.Fingerprint(next); err != nil {
		return err
	}
	return reportMaximized(p, r, output, asJSON)
}

func readSums(p *program, path string, under *snapshot.Statistics) (*snapshot.Statistics, error) {
	if path == "-" {
		return snapshot.ReadStatistics(p.stdin, under)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.ReadStatistics(f, under)
	if err != nil {
		return nil, unlike(path, sums, err)
	}
	return s, nil
}

func reportMaximized(p *program, r maximized, output string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	out := p.stdout
	if output == "-" {
		out = p.stderr
	}
	_, err := fmt.Fprintf(out, "%d rows in %d parts (%d invalid): NLL %.6f before this step, a single Gaussian %.6f\nnext model: %d Parzen and %d Gaussian directions, %d neighbours, fingerprint %s\n",
		r.Rows, r.Parts, r.Invalid, r.NLL, r.GaussianNLL, r.Parzen, r.Gaussian, r.Neighbours, r.Fingerprint)
	return err
}
