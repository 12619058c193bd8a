package snapshots

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// change is the output of diff --json. A value that cannot be compared or is not known is null.
type change struct {
	Versions   [2]uint64   `json:"versions"`
	Rows       [2]uint64   `json:"rows"`
	Gaussian   [2]int      `json:"d_gaussian"`
	Parzen     [2]int      `json:"d_parzen"`
	NLL        [2]*float64 `json:"nll"`
	LogDet     [2]*float64 `json:"log_det"`        // log|det(B_G, B_L)|
	Angle      *float64    `json:"angle_radians"`  // largest principal angle between the Parzen subspaces
	Angles     []float64   `json:"angles_radians"` // all principal angles, ascending
	Spectrum   *float64    `json:"spectrum"`       // largest |ln e_new − ln e_old| at one position of the spectrum
	MeanShift  *float64    `json:"mean_shift"`     // largest shift of a feature's mean, in its old standard deviations
	Same       bool        `json:"same"`           // the model parts are the same bytes
	Added      []string    `json:"features_added"`
	Removed    []string    `json:"features_removed"`
	Young      [2]bool     `json:"young"` // they have no metric yet, so that no more can be compared
	widestMean string
	young      []string
}

func snapshotDiffCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two models: versions on the topic, or files",
		Long: `Compares two snapshots, each a version on the topic of -c or a file: dimensions, likelihood, how far the
structured directions have turned, how the spectrum and the means have moved.`,
		Example: `  lca-stream snapshot diff -c stream.yaml 100000 120000
  lca-stream snapshot diff january.arrows february.arrows --json`,
		Args: app.Takes(2, 2),
	}
	o := p.ConfigFlags(c)
	modelID := c.Flags().String("model-id", "", modelIDHelp)
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	return app.Command(c, func(ctx context.Context, args []string) error {
		before, err := oneOrFile(ctx, p, o, *modelID, args[0])
		if err != nil {
			return err
		}
		after, err := oneOrFile(ctx, p, o, *modelID, args[1])
		if err != nil {
			return err
		}
		d, err := compare(before, after)
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(p.Stdout).Encode(d)
		}
		_, err = io.WriteString(p.Stdout, d.String())
		return err
	})
}

func compare(a, b *snapshot.Snapshot) (*change, error) {
	one, err := snapshot.Fingerprint(a)
	if err != nil {
		return nil, err
	}
	other, err := snapshot.Fingerprint(b)
	if err != nil {
		return nil, err
	}
	d := &change{
		Versions: [2]uint64{a.Version, b.Version}, Rows: [2]uint64{a.Model.Info.Rows, b.Model.Info.Rows},
		Gaussian: [2]int{a.Model.Gaussian(), b.Model.Gaussian()}, Parzen: [2]int{a.Model.Parzen(), b.Model.Parzen()},
		NLL: [2]*float64{app.Finite(a.Model.Info.NLL), app.Finite(b.Model.Info.NLL)}, Same: one == other,
		Added: app.Without(b.Features, a.Features), Removed: app.Without(a.Features, b.Features),
	}
	for i, s := range []*snapshot.Snapshot{a, b} {
		if young := s.Young(); young != "" {
			d.Young[i], d.young = true, append(d.young, fmt.Sprintf("version %d is %s", s.Version, young))
		}
	}
	if !slices.Equal(a.Features, b.Features) || len(d.young) > 0 {
		return d, nil // the columns have different meanings, so the rest cannot be compared
	}
	d.LogDet = [2]*float64{app.Finite(a.Model.LogDet()), app.Finite(b.Model.LogDet())}
	d.Angle, d.Angles = app.Finite(a.Model.Angle(b.Model)), append([]float64{}, a.Model.Angles(b.Model)...)
	d.Spectrum = spectrumShift(a.Model.Ratio, b.Model.Ratio)
	d.MeanShift, d.widestMean = meanShift(a, b)
	return d, nil
}

func spectrumShift(a, b []float64) *float64 {
	if len(a) != len(b) {
		return nil
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(math.Log(b[i]/a[i])))
	}
	return app.Finite(most)
}

func meanShift(a, b *snapshot.Snapshot) (most *float64, feature string) {
	if a.Model.CG == nil {
		return nil, ""
	}
	for i, name := range a.Features {
		deviation := math.Sqrt(a.Model.CG.At(i, i))
		if deviation == 0 {
			continue
		}
		if shift := math.Abs(b.Model.Mean[i]-a.Model.Mean[i]) / deviation; most == nil || shift > *most {
			most, feature = app.Finite(shift), name
		}
	}
	return most, feature
}

// String formats the change for people.
func (d *change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version     %d → %d (%+d rows)\n", d.Versions[0], d.Versions[1], int64(d.Rows[1])-int64(d.Rows[0]))
	if d.Same {
		b.WriteString("the model parts are the same bytes\n")
	}
	if len(d.Added)+len(d.Removed) > 0 {
		fmt.Fprintf(&b, "features    added %q, removed %q: the rest cannot be compared\n", d.Added, d.Removed)
		return b.String()
	}
	if len(d.young) > 0 {
		fmt.Fprintf(&b, "%s: the rest cannot be compared\n", strings.Join(d.young, "\n"))
		return b.String()
	}
	fmt.Fprintf(&b, "Parzen      %d → %s\nGaussian    %d → %s\n", d.Parzen[0], plural.Count(d.Parzen[1], "direction"), d.Gaussian[0], plural.Count(d.Gaussian[1], "direction"))
	fmt.Fprintf(&b, "NLL         %s nats/row\n", fromTo(d.NLL))
	fmt.Fprintf(&b, "log-det     %s: log|det(B_G, B_L)| of the metric\n", fromTo(d.LogDet))
	fmt.Fprintf(&b, "turned by   %s radians (largest principal angle of the Parzen subspaces)\n", app.Maybe(d.Angle))
	if n := len(d.Angles); n > 1 {
		fmt.Fprintf(&b, "angles      smallest %s, median %s, of %d\n", app.Known(d.Angles[0]), app.Known(d.Angles[n/2]), n)
	}
	fmt.Fprintf(&b, "spectrum    %s (largest change of ln e)\n", app.Maybe(d.Spectrum))
	fmt.Fprintf(&b, "means       %s standard deviations at most, of %q\n", app.Maybe(d.MeanShift), d.widestMean)
	return b.String()
}

// fromTo formats both values and their change.
func fromTo(v [2]*float64) string {
	text := app.Maybe(v[0]) + " → " + app.Maybe(v[1])
	if v[0] != nil && v[1] != nil {
		text += fmt.Sprintf(" (%+.4g)", *v[1]-*v[0])
	}
	return text
}
