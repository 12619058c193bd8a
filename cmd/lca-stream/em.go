package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// emCommand is `lca-stream em`.
func emCommand(p *program) *cobra.Command {
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
	group(c, expectCommand(p), maximizeCommand(p))
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

func expectCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "expect",
		Short: "Sum what an EM step needs of some rows under a model (the E-step)",
		Long: `Reads .arrow, .arrows and .parquet files, or an Arrow IPC stream on standard input (-), and writes the sums of
each as a part: one row of Arrow. Rows with a feature that is null, NaN or infinite are counted and left out, and so are rows 95 million standard
deviations away or more; whatever else cannot be read ends the command with exit code 2, and nothing is written.`,
		Example: `  lca-stream em expect --model model.arrows --input 2026-01.parquet --input 2026-02.parquet -o sums.arrows
  python3 rows.py | lca-stream em expect --model model.arrows --part 7 --input - -o 7.sums.arrows`,
	}
	f := expectFlags{}
	c.Flags().StringVar(&f.model, "model", "", "the model `FILE`, as replay, snapshot export and em maximize write it")
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "read `FILE`, all files of a directory or a quoted pattern, or standard input (-); may be repeated: each file is a part")
	outputFlags(c, &f.output, &f.force, sums, "write the sums to `FILE`, or to standard output (-)")
	c.Flags().Int32Var(&f.part, "part", 0, "`NUMBER` of the first input; those that follow count on from it")
	c.Flags().StringVar(&f.precision, "precision", lca.Float64.String(), "`TYPE` of the E-step: "+either(lca.Precisions()...)+"; float32 is about twice as fast and right to some 1e-5")
	choices(c, "precision", lca.Precisions()...)
	required(c, "model", "input", "output")
	return command(c, func(ctx context.Context, _ []string) error { return expect(ctx, p, f) })
}

// required marks flags without which a command cannot run.
func required(c *cobra.Command, names ...string) {
	for _, name := range names {
		if err := c.MarkFlagRequired(name); err != nil {
			panic("lca-stream: internal error: " + err.Error()) // the flag does not exist
		}
	}
}

func expect(ctx context.Context, p *program, f expectFlags) error {
	precision, err := lca.ParsePrecision(f.precision)
	if err != nil {
		return usageError("--precision is %q; want %s", f.precision, either(lca.Precisions()...))
	}
	if f.inputs, err = rowInputs(f.inputs); err != nil {
		return err
	}
	if last := int64(f.part) + int64(len(f.inputs)) - 1; f.part < 0 || last > math.MaxInt32 {
		return usageError("--part is %d with %d inputs; parts have numbers from 0 to %d", f.part, len(f.inputs), math.MaxInt32)
	}
	if err := namedOnce(f.inputs); err != nil {
		return err
	}
	if err := notRead(f.output, append(slices.Clone(f.inputs), f.model)); err != nil {
		return err
	}
	if err := mayWriteStream(f.output, sums, f.force); err != nil {
		return err
	}
	model, err := readSnapshotFile(f.model)
	if err != nil {
		return err
	}
	if len(model.Model.Neighbours) == 0 {
		return fmt.Errorf("%s has no neighbours, which the next model's are as many as: export it with them", f.model)
	}
	all, err := snapshot.StatisticsOf(model, producer())
	if err != nil {
		return err
	}
	limits := fileLimits(config.Memory{}, slog.New(slog.DiscardHandler))
	limits.Need = needs(model.Features)
	stage := &pipeline.Expect{Features: model.Features, Sums: model.Model.NewAccumulator(precision)}
	for i, input := range f.inputs {
		stage.Part(f.part + int32(i))
		if err := readInput(ctx, p, input, limits, stage.Take); err != nil {
			return err
		}
	}
	all.Parts = stage.Sums.End()
	if err := p.writeOutput(f.output, func(w io.Writer) error { return snapshot.WriteStatistics(w, all) }); err != nil {
		return err
	}
	var rows, invalid uint64
	for _, s := range all.Parts {
		rows, invalid = rows+s.Rows, invalid+s.Invalid
	}
	_, err = fmt.Fprintf(p.stderr, "%s in %s (%d invalid) summed under version %d of %q\n", plural.Count(rows, "row"), plural.Count(len(all.Parts), "part"), invalid, model.Version, model.ModelID)
	return err
}

// readInput hands over the messages of a file, or of standard input. A message must not be kept.
func readInput(ctx context.Context, p *program, path string, c format.FileConfig, take func(*source.Message) error) error {
	in, err := p.openInput(ctx, path, c)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	in.Reuse()
	return eachMessage(ctx, in, take)
}

// errInterrupted is that a signal came while there were rows to read.
var errInterrupted = errors.New("interrupted before the end of the rows: start it over")

// eachMessage hands over all messages of an input, unless ctx ends before.
func eachMessage(ctx context.Context, in input, take func(*source.Message) error) error {
	for {
		b, err := in.Read(ctx)
		switch {
		case errors.Is(err, source.ErrEnd):
			return nil
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil:
			return err
		}
		for i := range b.Messages {
			if err := take(&b.Messages[i]); err != nil {
				if ctx.Err() != nil {
					return errInterrupted
				}
				return err
			}
		}
		b.Release()
	}
}
