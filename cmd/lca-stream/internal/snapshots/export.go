package snapshots

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

func snapshotExportCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "export [MODEL]",
		Short: "Write a model for other programs: " + app.Either(snapshot.Formats()...),
		Long: `Writes a snapshot to a file (or standard output, -o -). Every format holds the same arrays under the same
names: mean, whiten, parzen, gaussian, c_l, c_g, eigenvalues, neighbours; y = whiten (x - mean). An ONNX
file is a graph with input x and output y. Without --format the ending of the file decides.
MODEL is the id of a model; without it, that of the configuration is written.`,
		Example: `  lca-stream snapshot export -c stream.yaml -o model.onnx
  lca-stream snapshot export --file model.arrows --format npz -o model.npz`,
	}
	ch := choiceFlags(p, c)
	var format, out string
	var force bool
	c.Flags().StringVar(&format, "format", "", "`FORMAT`: "+app.Either(snapshot.Formats()...)+"; default: by the ending of -o, else arrow")
	app.Choices(c, "format", snapshot.Formats()...)
	app.OutputFlags(c, &out, &force, app.ContentModel, "`FILE` to write; - is standard output")
	if err := c.MarkFlagRequired("output"); err != nil {
		panic("lca-stream: internal error: " + err.Error()) // the flag does not exist
	}
	return app.Command(c, func(ctx context.Context, _ []string) error {
		f, err := app.FormatOf(format, out)
		if err != nil {
			return app.UsageError("%w", err)
		}
		if err := app.MayWrite(out, app.ContentModel, force); err != nil {
			return err
		}
		s, err := snapshotOf(ctx, p, ch)
		if err != nil {
			return err
		}
		return p.WriteOutput(out, func(w io.Writer) error { return snapshot.Export(w, s, f) })
	})
}

func snapshotImportCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Publish a model from a file to the snapshot topic",
		Long: `Reads a snapshot that replay or export has written as Arrow, and publishes it under snapshot.model_id. Transforms of
that model follow it at once. If the topic has the model already, the version goes on from there.

A learner of that model is stopped with exit code 3, as by a second learner: started again, by its
supervisor or by hand, it goes on from the model that was imported, at the place in the stream where it
was. To leave it alone, give the import an id of its own (--set snapshot.model_id=NAME).`,
		Example: "  lca-stream snapshot import -c stream.yaml --file model.arrows --set snapshot.model_id=january",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	var file string
	c.Flags().StringVar(&file, "file", "", "the snapshot `FILE`")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		if file == "" {
			return app.UsageError("which snapshot? name its file with --file FILE; `lca-stream snapshot export` and `replay --output` write one")
		}
		snap, err := app.ReadSnapshotFile(file)
		if err != nil {
			return err
		}
		if young := snap.Young(); young != "" {
			return fmt.Errorf("%s is %s, and only a model that has one is imported", file, young)
		}
		s, err := system.Connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := app.OneModelOnly(s.Config, "snapshot import"); err != nil {
			return err
		}
		if _, err := s.Partitions(ctx, s.Config.Snapshot.Topic); err != nil {
			return err
		}
		snap.ModelID = s.Config.Snapshot.ModelID
		done, err := s.Publish(ctx, snap)
		if err != nil {
			return err
		}
		if !done {
			_, err = fmt.Fprintf(p.Stdout, "model %s is the newest on %s already, as version %d: nothing was done, and its learner goes on from what it has learnt since\n",
				snap.ModelID, s.Config.Snapshot.Topic, snap.Version)
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "published model %s as version %d to %s\n", snap.ModelID, snap.Version, s.Config.Snapshot.Topic)
		return err
	})
}
