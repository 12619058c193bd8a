package run

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink/rowfile"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// offlineFlags are the flags of `lca-stream transform` on files.
type offlineFlags struct {
	inputs        []string
	output, model string
	version       uint64
	force         bool
}

func offlineFlagsOf(c *cobra.Command) *offlineFlags {
	f := &offlineFlags{}
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "whiten `FILE` (.arrow, .arrows, .parquet, .csv), all files of a directory or a quoted pattern, or an Arrow IPC stream on standard input (-); may be repeated")
	c.Flags().StringVarP(&f.output, "output", "o", "", "write the rows of --input to `FILE` (.arrow, .arrows, .parquet), or as an Arrow IPC stream to standard output (-)")
	c.Flags().StringVar(&f.model, "model", "", "the model `FILE` for --input; default: that of the snapshot topic of -c")
	c.Flags().Uint64Var(&f.version, "version", 0, "`VERSION` on the snapshot topic, for --input; 0: transform.pin_version, or the newest")
	c.Flags().BoolVar(&f.force, "force", false, "overwrite the file of --output")
	return f
}

func (f *offlineFlags) given() bool {
	return len(f.inputs) > 0 || f.output != "" || f.model != "" || f.version != 0 || f.force
}

// check refuses flags that contradict each other, and returns the format of the output.
func (f *offlineFlags) check(o *app.Options) (rowfile.Kind, error) {
	switch {
	case len(f.inputs) == 0:
		return 0, app.UsageError("--output, --model, --version and --force are of --input, which is missing")
	case f.output == "":
		return 0, app.UsageError("--input needs --output: a file, or - for standard output")
	case f.model == "" && o.Path() == "":
		return 0, app.UsageError("which model? name its file with --model, or the configuration of its topic with -c")
	case f.model != "" && f.version != 0:
		return 0, app.UsageError("--version is of the snapshot topic: a file holds one model")
	}
	var err error
	if f.inputs, err = app.RowInputs(f.inputs); err != nil {
		return 0, err
	}
	if err := app.NamedOnce(f.inputs); err != nil {
		return 0, err
	}
	return app.RowOutput("--output", f.output, append(slices.Clone(f.inputs), f.model), f.force)
}

// transformFiles whitens the rows of files and pipes with one model.
func transformFiles(ctx context.Context, p *app.Program, o *app.Options, f *offlineFlags) error {
	kind, err := f.check(o)
	if err != nil {
		return err
	}
	cfg, err := p.Load(o)
	if err != nil {
		return err
	}
	model, err := offlineModel(ctx, p, o, f, cfg)
	if err != nil {
		return err
	}
	t := &fileTransform{program: p, flags: f, series: system.SeriesOf(cfg), stats: new(stats.Stats), screen: app.NewFileScreen(p), limits: app.FileLimits(cfg.Memory, p.Logger(cfg.Logger))}
	out := system.OutputOf(cfg)
	out.Episode = false // they are told of streams
	t.offline = transform.NewOffline(model, transform.TransformConfig{
		Output: out, Components: cfg.Transform.Components, Series: system.SeriesOf(cfg),
		OnInvalid: cfg.Source.OnInvalid, Stats: t.stats, Log: p.Logger(cfg.Logger), Now: time.Now,
	})
	var fault error // of an input
	err = p.WriteOutput(f.output, func(w io.Writer) error {
		err := t.run(ctx, kind, w)
		if t.unwritten == nil {
			fault = err
		}
		return err
	})
	t.screen.End()
	if err := cmp.Or(fault, err); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stderr, t.summary(model))
	return err
}

func offlineModel(ctx context.Context, p *app.Program, o *app.Options, f *offlineFlags, cfg *config.Config) (s *snapshot.Snapshot, err error) {
	if f.model != "" {
		if s, err = app.ReadSnapshotFile(f.model); err == nil {
			err = contradiction(cfg, f.model, s)
		}
		return s, err
	}
	version := f.version
	if version == 0 {
		version = cfg.Transform.PinVersion
	}
	if err := app.OneModelOnly(cfg, "transform --input"); err != nil {
		return nil, err
	}
	err = system.WithTopic(ctx, p, o, func(id string, a *snapshot.Assembler) error {
		s, err = system.Pick(a, id, version)
		return err
	})
	return s, err
}

// contradiction refuses a configuration that asks for another model than that of a file.
func contradiction(cfg *config.Config, path string, s *snapshot.Snapshot) error {
	pinned := cfg.Transform.PinVersion
	switch {
	case cfg.Model.By.Keyed():
		return app.UsageError("model.by is %s, and %s holds one model for all rows: if all are of it, say --set model.by=none", cfg.Model.By, path)
	case pinned != 0 && pinned != s.Version:
		return app.UsageError("transform.pin_version is %d, and %s holds version %d: if that is what you want, say --set transform.pin_version=0", pinned, path, s.Version)
	case !minibatch.Chosen(cfg.Source.Features, s.Features):
		return app.UsageError("%s: version %d %s: if that is what you want, say --set source.features=[]", path, s.Version, checkpoint.OtherFeatures(s.Features, "source.features says", cfg.Source.Features))
	}
	return nil
}

// fileTransform whitens files.
type fileTransform struct {
	program *app.Program
	flags   *offlineFlags
	offline *transform.Offline
	stats   *stats.Stats
	screen  *app.FileScreen
	limits  format.FileConfig
	series  modelkey.By
	schema  *arrow.Schema // of the inputs
	writer  rowfile.Writer

	unwritten error // of the output
}

// run reads the inputs one after the other.
func (t *fileTransform) run(ctx context.Context, kind rowfile.Kind, w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	for _, path := range t.flags.inputs {
		if err := t.file(ctx, path, kind, buffered); err != nil {
			return err
		}
	}
	t.unwritten = errors.Join(t.writer.Close(), buffered.Flush())
	return t.unwritten
}

func (t *fileTransform) write(pieces ...[]byte) error {
	t.unwritten = t.writer.Write(pieces...)
	return t.unwritten
}

func (t *fileTransform) file(ctx context.Context, path string, kind rowfile.Kind, w io.Writer) error {
	in, err := t.program.OpenInput(ctx, path, t.limits)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	if t.schema == nil {
		t.schema = in.Schema()
		if err := system.HasSeries(path, t.schema, t.series); err != nil {
			return err
		}
		out, err := t.offline.Schema(t.schema)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if t.writer, err = rowfile.New(kind, w, out, len(t.flags.inputs) > 1 || !hasOneDictionary(path)); err != nil {
			return err
		}
	}
	if err := app.SameColumns(t.schema, in.Schema()); err != nil {
		return fmt.Errorf("%s: %w: all inputs need the columns of the first, %s", path, err, t.flags.inputs[0])
	}
	return app.EachMessage(ctx, in, func(m *source.Message) error {
		if m.Record != nil && in.Schema() != t.schema { // only the metadata differ, such as the number of rows that pandas notes there
			same := array.NewRecord(t.schema, m.Record.Columns(), m.Record.NumRows())
			m.Record.Release()
			m.Record = same
		}
		if err := t.offline.Take(ctx, m, t.write); err != nil {
			return err
		}
		t.screen.Rows(m.Record.NumRows())
		return nil
	})
}

// hasOneDictionary reports whether a file has only one dictionary for each column, by its name: a stream may have others for each batch.
func hasOneDictionary(path string) bool {
	kind, err := rowfile.KindOf(path)
	return err == nil && kind == rowfile.ArrowFile
}

// summary says what became of the rows.
func (t *fileTransform) summary(model *snapshot.Snapshot) string {
	rejected := t.stats.Tables().Rejected
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(rejected)) {
		if n := rejected[reason]; n > 0 {
			why = append(why, fmt.Sprintf("%s: %d", reason, n))
		}
	}
	whitened := t.stats.TransformRows.Load()
	text := fmt.Sprintf("%s whitened with version %d of %q", plural.Count(whitened, "row"), model.Version, model.ModelID)
	if why != nil {
		text += fmt.Sprintf(", %d not (%s)", uint64(t.screen.Read)-whitened, strings.Join(why, ", "))
	}
	if p, ok := t.writer.(interface{ Lost() int }); ok && p.Lost() > 0 {
		text += fmt.Sprintf("; %s null, because Parquet has no unit of theirs", plural.Count(p.Lost(), "value"))
	}
	return fmt.Sprintf("%s, in %.1f s", text, time.Since(t.screen.Start).Seconds())
}
