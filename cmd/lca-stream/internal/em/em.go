// Package em is EM in pieces: `em expect` sums up a part of the rows, and `em maximize` makes the next model of all sums.
package em

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// Command is `lca-stream em`.
func Command(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "em",
		Short: "Refit a model to more data than one process takes, step by step",
		Long: `Expectation maximization (EM) in pieces that any engine can run: expect sums what a step needs of some files under
a model, maximize makes the next model of the sums of all. The sums of a part depend on its rows alone and are
folded by the parts' numbers, so that neither the workers nor their order change a bit of the result.

The first model comes from a sample, which also sets the features, ν and the number of neighbours:

  lca-stream replay --algorithm lca-gauss --passes 1 --sample 3000 --input a.parquet --input b.parquet -o model.arrows

Then, until the NLL that maximize prints no longer falls:

  lca-stream em expect --model model.arrows --input a.parquet --output a.sums.arrows
  lca-stream em expect --model model.arrows --input b.parquet --part 1 --output b.sums.arrows
  lca-stream em maximize --model model.arrows --input a.sums.arrows --input b.sums.arrows --output model.arrows

From the second step on, each is one step of replay --algorithm lca-gauss (or lca, as the model is) over all rows,
with a sample of them as neighbours. Publish the last model with lca-stream snapshot import.`,
	}
	app.Group(c, expectCommand(p), maximizeCommand(p))
	return c
}

// expectFlags are the flags of `lca-stream em expect`.
type expectFlags struct {
	model, output string
	inputs        []string
	part          int32
	precision     string
	force         bool
}

func expectCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "expect",
		Short: "Sum what an EM step needs of some rows under a model (the E-step)",
		Long: `Reads .arrow, .arrows, .parquet and .csv files, or an Arrow IPC stream on standard input (-), and writes the sums of
each as a part: one row of Arrow. Rows with a feature that is null, NaN or infinite are counted and left out, and so are rows 95 million standard
deviations away or more; whatever else cannot be read ends the command with exit code 2, and nothing is written.`,
		Example: `  lca-stream em expect --model model.arrows --input 2026-01.parquet --input 2026-02.parquet -o sums.arrows
  python3 rows.py | lca-stream em expect --model model.arrows --part 7 --input - -o 7.sums.arrows`,
	}
	f := expectFlags{}
	c.Flags().StringVar(&f.model, "model", "", "the model `FILE`, as replay, snapshot export and em maximize write it")
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "read `FILE`, all files of a directory or a quoted pattern, or standard input (-); may be repeated: each file is a part")
	app.OutputFlags(c, &f.output, &f.force, app.ContentSums, "write the sums to `FILE`, or to standard output (-)")
	c.Flags().Int32Var(&f.part, "part", 0, "`NUMBER` of the first input; those that follow count on from it")
	c.Flags().StringVar(&f.precision, "precision", lca.Float64.String(), "`TYPE` of the E-step: "+app.Either(lca.Precisions()...)+"; float32 is about twice as fast and right to some 1e-5")
	app.Choices(c, "precision", lca.Precisions()...)
	app.Required(c, "model", "input", "output")
	return app.Command(c, func(ctx context.Context, _ []string) error { return expect(ctx, p, f) })
}

func expect(ctx context.Context, p *app.Program, f expectFlags) error {
	precision, err := lca.ParsePrecision(f.precision)
	if err != nil {
		return app.UsageError("--precision is %q; want %s", f.precision, app.Either(lca.Precisions()...))
	}
	if f.inputs, err = app.RowInputs(f.inputs); err != nil {
		return err
	}
	if last := int64(f.part) + int64(len(f.inputs)) - 1; f.part < 0 || last > math.MaxInt32 {
		return app.UsageError("--part is %d with %d inputs; parts have numbers from 0 to %d", f.part, len(f.inputs), math.MaxInt32)
	}
	if err := app.NamedOnce(f.inputs); err != nil {
		return err
	}
	if err := app.NotRead("--output", f.output, append(slices.Clone(f.inputs), f.model)); err != nil {
		return err
	}
	if err := app.MayWriteStream(f.output, app.ContentSums, f.force); err != nil {
		return err
	}
	model, err := app.ReadSnapshotFile(f.model)
	if err != nil {
		return err
	}
	if young := model.Young(); young != "" {
		return fmt.Errorf("%s is %s", f.model, young)
	}
	if len(model.Model.Neighbours) == 0 {
		return fmt.Errorf("%s has no neighbours, which the next model's are as many as: export it with them", f.model)
	}
	all, err := snapshot.StatisticsOf(model, app.Producer())
	if err != nil {
		return err
	}
	limits := app.FileLimits(config.Memory{}, slog.New(slog.DiscardHandler))
	limits.Need = app.Needs(model.Features)
	stage := &learn.Expect{Features: model.Features, Sums: model.Model.NewAccumulator(precision)}
	for i, input := range f.inputs {
		stage.Part(f.part + int32(i))
		if err := app.ReadRows(ctx, p, input, limits, stage.Take); err != nil {
			return err
		}
	}
	all.Parts = stage.Sums.End()
	if err := p.WriteOutput(f.output, func(w io.Writer) error { return snapshot.WriteStatistics(w, all) }); err != nil {
		return err
	}
	var rows, invalid uint64
	for _, s := range all.Parts {
		rows, invalid = rows+s.Rows, invalid+s.Invalid
	}
	_, err = fmt.Fprintf(p.Stderr, "%s in %s (%d invalid) summed under version %d of %q\n", plural.Count(rows, "row"), plural.Count(len(all.Parts), "part"), invalid, model.Version, model.ModelID)
	return err
}

// Maximized is the JSON object of `em maximize --json`.
type Maximized struct {
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

func maximizeCommand(p *app.Program) *cobra.Command {
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
	app.OutputFlags(c, &output, &force, app.ContentModel, "write the next model to `FILE`, or to standard output (-)")
	c.Flags().StringArrayVar(&notes, "metadata", nil, "note `KEY=VALUE` in the model's metadata, such as where its rows come from; may be repeated. The models that follow keep it")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	app.Required(c, "model", "input", "output")
	return app.Command(c, func(_ context.Context, _ []string) error {
		if output == "-" && asJSON {
			return app.UsageError("--json and --output - would both go to standard output")
		}
		if err := app.MayWriteStream(output, app.ContentModel, force); err != nil {
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
			return nil, app.UsageError("--metadata %q; want KEY=VALUE in UTF-8, and a key that does not begin with lca.", note)
		}
		extra[key] = value
	}
	return extra, nil
}

func maximize(p *app.Program, path string, inputs []string, extra map[string]string, output string, asJSON bool) error {
	last, err := app.ReadSnapshotFile(path)
	if err != nil {
		return err
	}
	under, err := snapshot.StatisticsOf(last, app.Producer())
	if err != nil {
		return err
	}
	if inputs, err = app.Matches(inputs); err != nil {
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
		Producer: app.Producer(), Extra: extra,
	}
	if err := p.WriteOutput(output, func(w io.Writer) error { return snapshot.WriteFile(w, next) }); err != nil {
		return err
	}
	r := Maximized{
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

func readSums(p *app.Program, path string, under *snapshot.Statistics) (*snapshot.Statistics, error) {
	if path == "-" {
		return snapshot.ReadStatistics(p.Stdin, under)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.ReadStatistics(f, under)
	if err != nil {
		return nil, app.Unlike(path, app.ContentSums, err)
	}
	return s, nil
}

func reportMaximized(p *app.Program, r Maximized, output string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.Stdout).Encode(r)
	}
	out := p.Stdout
	if output == "-" {
		out = p.Stderr
	}
	_, err := fmt.Fprintf(out, "%s in %s (%d invalid): NLL %.6f before this step, a single Gaussian %.6f\nnext model: %d Parzen and %s, %s, fingerprint %s\n",
		plural.Count(r.Rows, "row"), plural.Count(r.Parts, "part"), r.Invalid, r.NLL, r.GaussianNLL, r.Parzen, plural.Count(r.Gaussian, "Gaussian direction"), plural.Count(r.Neighbours, "neighbour"), r.Fingerprint)
	return err
}
