package snapshots

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// How much of a large model show prints.
const (
	shownDirections  = 8
	shownFeatures    = 5
	shownEigenvalues = 12 // on each side of the cut
	barWidth         = 40
)

// Shown is the output of show --json.
type Shown struct {
	Metadata    map[string]string    `json:"metadata"`
	Eigenvalues []float64            `json:"eigenvalues"` // of parzen, then of gaussian, each ascending
	Directions  []snapshot.Direction `json:"directions"`  // of the Parzen part
	Fingerprint string               `json:"fingerprint"` // sha256 of the model part
	Time        *time.Time           `json:"time,omitempty"`
}

func snapshotShowCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "show [MODEL]",
		Short: "Show a model: dimensions, spectrum, directions, likelihood",
		Long: `Shows where a model comes from, its likelihood, and the spectrum of C_G^(-1/2) C_L C_G^(-1/2): directions
below 1 have local structure (Parzen), those from 1 on have none (Gaussian). For each of the most
structured directions it names the features that weigh most, in standard deviations of the feature.
MODEL is the id of a model; without it, that of the configuration is shown.`,
		Example: `  lca-stream snapshot show -c stream.yaml
  lca-stream snapshot show january -c stream.yaml
  lca-stream snapshot show --file model.arrows --plot spectrum.svg
  lca-stream snapshot show --file model.arrows --json`,
	}
	ch := choiceFlags(p, c)
	asJSON := c.Flags().Bool("json", false, "print one JSON object: metadata, eigenvalues, directions, fingerprint")
	picture := c.Flags().String("plot", "", "draw the spectrum and the first directions to `FILE`, .svg or .png")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		if *picture != "" {
			if _, err := plotFormat(*picture); err != nil {
				return err
			}
		}
		if *picture != "" || ch.file != "" {
			s, err := snapshotOf(ctx, p, ch)
			if err == nil && *picture != "" {
				err = plotSnapshot(*picture, s)
			}
			if err != nil {
				return err
			}
			return show(p, s, *asJSON)
		}
		all, err := snapshotsOf(ctx, p, ch)
		if err != nil {
			return err
		}
		for i, s := range all {
			if i > 0 && !*asJSON {
				fmt.Fprintln(p.Stdout)
			}
			if err := show(p, s, *asJSON); err != nil {
				return err
			}
		}
		return nil
	})
}

func show(p *app.Program, s *snapshot.Snapshot, asJSON bool) error {
	fingerprint, err := snapshot.Fingerprint(s)
	if err != nil {
		return err
	}
	if !asJSON {
		_, err = io.WriteString(p.Stdout, describe(s, fingerprint, time.Now()))
		return err
	}
	out := Shown{Metadata: s.Metadata(), Eigenvalues: append([]float64{}, s.Model.Ratio...), Directions: s.Directions(s.Model.Dim, shownFeatures), Fingerprint: fingerprint}
	if at := s.Time.UTC(); !s.Time.IsZero() {
		out.Time = &at
	}
	return json.NewEncoder(p.Stdout).Encode(out)
}

func describe(s *snapshot.Snapshot, fingerprint string, now time.Time) string {
	var b strings.Builder
	m, info := s.Model, s.Model.Info
	fmt.Fprintf(&b, "model        %s, version %d", terminal.Name(s.ModelID), s.Version)
	if s.Parent > 0 {
		fmt.Fprintf(&b, ", parent %d", s.Parent)
	}
	if !s.Time.IsZero() {
		fmt.Fprintf(&b, ", published %s ago (%s)", app.Age(now.Sub(s.Time)), s.Time.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "\nfingerprint  sha256 %s\n", fingerprint)
	fmt.Fprintf(&b, "made by      %s: %s, metric %s, kernel %s, coordinates %s, components %s\n", terminal.Line(or(s.Producer, "unknown")), m.Kind, m.Metric, m.Kernel, m.Coordinates, m.Components)
	if young := s.Young(); young != "" {
		fmt.Fprintf(&b, "%s; until then the last rows of a series have one\n", young)
		return b.String()
	}
	if info.Gamma == 0 { // a batch algorithm, or em: nothing is left out but by --sample
		fmt.Fprintf(&b, "rows         %d learnt at once; %d read for it and for the models before it\n", info.Learnt, info.Rows)
	} else {
		fmt.Fprintf(&b, "rows         %d seen: %d learnt, %d gated as outliers, %d set aside or waiting; minibatches of %d\n", info.Rows, info.Learnt, info.Gated,
			info.Rows-min(info.Rows, info.Learnt+info.Gated), info.Minibatch)
	}
	fmt.Fprintf(&b, "memory       γ %.4g, n %.4g rows; ν %s, ν_g %s (%s)\n", info.Gamma, info.PassRows, regular(info.Nu), regular(info.NuGaussian), info.NuUnit)
	fmt.Fprintf(&b, "neighbours   %d in the pool, %s effective\n", len(m.Neighbours)/max(1, m.Dim), app.Known(info.Effective))
	fmt.Fprintf(&b, "NLL          %s nats/row, each row by a model without it; a single Gaussian: %s\n", app.Known(info.NLL), app.Known(info.GaussianNLL))
	fmt.Fprintf(&b, "drift        %s radians since the model before; %d alarms\n", app.Known(info.Drift), info.Alarms)
	fmt.Fprintf(&b, "dimensions   %d: %d Parzen, %d Gaussian, %d constant%s\n", m.Dim, m.Parzen(), m.Gaussian(), len(info.Constant), constants(s))
	b.WriteString(chosen(info.Choice))
	b.WriteString(spectrum(m.Ratio, m.Parzen()))
	b.WriteString(directions(s))
	return b.String()
}

// constants names the columns that have not moved.
func constants(s *snapshot.Snapshot) string {
	var names []string
	for _, k := range s.Model.Info.Constant {
		names = append(names, s.Features[k])
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + app.SomeNames(names) + ")"
}

// chosen lists what was compared when the data chose last.
func chosen(c *lca.Choice) string {
	shown := snapshot.ChoiceOf(c)
	if shown == nil {
		return ""
	}
	var b strings.Builder
	judged := "of neighbours held out from the fits; current and gaussian have learnt them"
	if c.Beginning() {
		judged = "of these rows, each without itself, and of the numbers fitted to them"
	}
	fmt.Fprintf(&b, "\nchosen       %s, after %d rows; nats/row %s:\n", terminal.Line(shown.Taken), shown.Rows, judged)
	width := 0
	for _, t := range shown.Candidates {
		width = max(width, utf8.RuneCountInString(terminal.Line(t.Name)))
	}
	for _, t := range shown.Candidates {
		nll := "collapsed"
		if t.NLL != nil {
			nll = app.Known(*t.NLL)
		}
		fmt.Fprintf(&b, "  %-*s %10s  %d Parzen, ν %s (%s), %s\n", width, terminal.Line(t.Name), nll, t.Parzen, regular(t.Nu), t.NuUnit, t.Kernel)
	}
	return b.String()
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// regular formats a ν, which may have its default.
func regular(v float64) string {
	if v < 0 {
		return "auto"
	}
	return fmt.Sprintf("%.4g", v)
}

// cut says where the directions divide. That is at 1, unless a direction near it has stayed on its side, the pool is not full and a full one would have lower
// eigenvalues, or the rows are explained best by another number of Parzen directions.
func cut(e []float64, parzen int) string {
	switch {
	case parzen == 0:
		return "cut by the data: a single Gaussian"
	case e[parzen-1] >= 1:
		return "cut above 1: the pool is not full, or the data keep a direction"
	case parzen < len(e) && e[parzen] < 1:
		return "cut below 1, by the data"
	}
	return "cut at 1"
}

// spectrum draws the eigenvalues on a logarithmic scale, with the cut.
func spectrum(e []float64, parzen int) string {
	if len(e) == 0 {
		return ""
	}
	var b strings.Builder
	low := math.Inf(1)
	for _, v := range e {
		if v > 0 {
			low = min(low, v)
		}
	}
	scale := max(-math.Log(low), 1) // e = 1/e fills the bar at least, because small differences must not look large
	b.WriteString("\nspectrum     e of C_G^(-1/2) C_L C_G^(-1/2); the longer the bar, the more structure\n")
	row := func(kind string, i int) {
		bar := 0
		if e[i] < 1 && e[i] > 0 {
			bar = int(math.Round(-math.Log(e[i]) / scale * barWidth))
		}
		line := fmt.Sprintf("  %-8s %4d  %10.4g  %s", kind, i, e[i], strings.Repeat("█", min(bar, barWidth)))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	for i := range min(parzen, shownEigenvalues) {
		row("parzen", i)
	}
	if left := parzen - shownEigenvalues; left > 0 {
		fmt.Fprintf(&b, "  … and %d more, up to %.4g\n", left, e[parzen-1])
	}
	fmt.Fprintf(&b, "  ──────── %s ────────\n", cut(e, parzen))
	for i := parzen; i < min(len(e), parzen+shownEigenvalues); i++ {
		row("gaussian", i)
	}
	if left := len(e) - parzen - shownEigenvalues; left > 0 {
		fmt.Fprintf(&b, "  … and %d more, up to %.4g\n", left, e[len(e)-1])
	}
	return b.String()
}

func directions(s *snapshot.Snapshot) string {
	all := s.Directions(shownDirections, shownFeatures)
	if len(all) == 0 {
		return "\nno direction has local structure\n"
	}
	var b strings.Builder
	b.WriteString("\ndirections   with most structure, and the features that weigh most in them\n")
	for i, d := range all {
		fmt.Fprintf(&b, "  %4d ", i)
		for _, f := range d.Features {
			fmt.Fprintf(&b, "  %+.2f %s", f.Weight, terminal.Name(f.Feature))
		}
		b.WriteByte('\n')
	}
	if left := s.Model.Parzen() - len(all); left > 0 {
		fmt.Fprintf(&b, "  … and %d more (--json has them all)\n", left)
	}
	return b.String()
}
