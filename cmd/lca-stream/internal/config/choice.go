package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// oneOfValue is one of a few values, each with a name.
type oneOfValue struct {
	names []string
	name  func() string
	take  func(i int) // the value of names[i]
}

// oneOf takes the names from the values, as fmt prints them, so that they stand where the values are declared.
func oneOf[T comparable](p *T, all ...T) value {
	v := &oneOfValue{name: func() string { return fmt.Sprint(*p) }, take: func(i int) { *p = all[i] }}
	for _, one := range all {
		v.names = append(v.names, fmt.Sprint(one))
	}
	return v
}

func (v *oneOfValue) set(text string) error {
	i := slices.Index(v.names, text)
	if i < 0 {
		return v.refuse(text)
	}
	v.take(i)
	return nil
}

func (v *oneOfValue) check() error {
	if slices.Contains(v.names, v.name()) {
		return nil
	}
	return v.refuse(v.name())
}

func (v *oneOfValue) refuse(name string) error {
	return &wrong{what: fmt.Sprintf("%q is not a choice", name), remedy: typo.Question(name, v.names)}
}

func (v *oneOfValue) String() string         { return quote(v.name()) }
func (v *oneOfValue) want() string           { return "one of " + strings.Join(v.names, ", ") }
func (v *oneOfValue) schema() map[string]any { return map[string]any{"enum": v.names} }

// byValue is where the value of a row is: none, key, header:NAME or column:NAME.
type byValue struct{ p *modelkey.By }

// longestName bounds the name of a header or a column, bytes.
const longestName = 1024

func (v *byValue) set(text string) error {
	by, err := modelkey.Parse(text)
	if err != nil {
		place, _, _ := strings.Cut(text, ":")
		return &wrong{what: fmt.Sprintf("%.40q is not a choice", text), remedy: v.meant(place)}
	}
	*v.p = by
	return nil
}

// meant says which choice a text begins like; "" for none.
func (v *byValue) meant(place string) string {
	switch place {
	case "header", "column":
		return "write the name after the colon, such as " + place + ":machine"
	}
	return typo.Question(place, []string{"none", "key", "header:NAME", "column:NAME"})
}

func (v *byValue) check() error {
	if v.p.Name == "" {
		return nil
	}
	if len(v.p.Name) > longestName {
		return &wrong{what: fmt.Sprintf("its name is too long: %d bytes, at most %d", len(v.p.Name), longestName)}
	}
	if strings.TrimSpace(v.p.Name) != v.p.Name {
		return &wrong{what: fmt.Sprintf("%q has white space around its name", v.p), remedy: "remove it"}
	}
	if err := utf8Text(v.p.Name); err != nil {
		return &wrong{what: err.Error()}
	}
	return nil
}

func (v *byValue) String() string { return quote(v.p.String()) }
func (v *byValue) want() string   { return "one of none, key, header:NAME, column:NAME" }
func (v *byValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^(none|key|(header|column):[\s\S]+)$`}
}

// Series says which rows are a series: auto, partition, or as model.by does. The zero value is auto.
type Series string

// The series that are no values of rows.
const (
	SeriesAuto      Series = ""
	SeriesPartition Series = "partition"
)

const autoSeries = "auto"

// By is the value that rows of a series have in common; none: they have none.
func (s Series) By() modelkey.By {
	by, err := modelkey.Parse(string(s))
	if err != nil {
		return modelkey.By{}
	}
	return by
}

func (s Series) String() string { return cmp.Or(string(s), autoSeries) }

// ParseSeries reads what transform.series says.
func ParseSeries(text string) (s Series, err error) {
	v := &seriesValue{&s}
	if err := v.set(text); err != nil {
		return SeriesAuto, err
	}
	return s, v.check()
}

type seriesValue struct{ p *Series }

func (v *seriesValue) set(text string) error {
	switch text {
	case autoSeries:
		*v.p = SeriesAuto
		return nil
	case string(SeriesPartition):
		*v.p = SeriesPartition
		return nil
	}
	var by modelkey.By
	if err := (&byValue{&by}).set(text); err != nil || !by.Keyed() {
		place, _, _ := strings.Cut(text, ":")
		return &wrong{what: fmt.Sprintf("%.40q is not a choice", text), remedy: typo.Question(place, []string{autoSeries, string(SeriesPartition), "key", "header:NAME", "column:NAME"})}
	}
	*v.p = Series(by.String())
	return nil
}

func (v *seriesValue) check() error {
	by := v.p.By()
	return (&byValue{&by}).check()
}

func (v *seriesValue) String() string { return quote(v.p.String()) }
func (v *seriesValue) want() string   { return "one of auto, partition, key, header:NAME, column:NAME" }
func (v *seriesValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^(auto|partition|key|(header|column):[\s\S]+)$`}
}

// Metric is the family of the local covariance: the name of an lca.Metric, and behind a colon the rank of low_rank.
type Metric string

// Family returns the metric without its rank.
func (m Metric) Family() lca.Metric {
	family, _, _ := m.parse()
	return family
}

// Rank returns the rank of low_rank, and 0 for the others.
func (m Metric) Rank() int {
	_, rank, _ := m.parse()
	return rank
}

func (m Metric) parse() (family lca.Metric, rank int, ok bool) {
	name, behind, ranked := strings.Cut(string(m), ":")
	family, err := lca.ParseMetric(name)
	if err != nil || ranked != (family == lca.MetricLowRank) {
		return family, 0, false
	}
	if ranked {
		rank, err = strconv.Atoi(behind)
	}
	return family, rank, err == nil && ranked == (rank >= 1 && rank <= mostRank)
}

// mostRank bounds the rank of low_rank.
const mostRank = 65536

type metricValue struct{ p *Metric }

func (v *metricValue) set(text string) error {
	*v.p = Metric(text)
	return nil
}

func (v *metricValue) check() error {
	if _, _, ok := v.p.parse(); ok {
		return nil
	}
	name, _, _ := strings.Cut(string(*v.p), ":")
	remedy := ""
	switch family, err := lca.ParseMetric(name); {
	case err != nil:
		remedy = typo.Question(name, v.names())
	case family == lca.MetricLowRank:
		remedy = fmt.Sprintf("write the rank behind a colon, such as low_rank:5, at most %d and below the number of features", mostRank)
	}
	return &wrong{what: fmt.Sprintf("%.40q is not a choice", string(*v.p)), remedy: remedy}
}

func (v *metricValue) names() []string {
	var names []string
	for _, m := range lca.Metrics() {
		name := m.String()
		if m == lca.MetricLowRank {
			name += ":RANK"
		}
		names = append(names, name)
	}
	return names
}

func (v *metricValue) String() string { return quote(string(*v.p)) }
func (v *metricValue) want() string   { return "one of " + strings.Join(v.names(), ", ") }
func (v *metricValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": "^(" + strings.ReplaceAll(strings.Join(v.names(), "|"), "RANK", "[0-9]+") + ")$"}
}

// budgetValue is a number of false episodes in a time or in rows.
type budgetValue struct{ p *episode.Budget }

func (v *budgetValue) set(text string) error {
	b, err := episode.ParseBudget(text)
	if err != nil {
		return &wrong{what: fmt.Sprintf("%.40q is no budget of false episodes", text), remedy: "write a number in a time or in rows, as 1/day, 2/week, 1/30 days or 1/2000 rows"}
	}
	*v.p = b
	return nil
}

func (v *budgetValue) check() error   { return nil }
func (v *budgetValue) String() string { return v.p.String() }
func (v *budgetValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^[0-9]+/(hour|day|week|[0-9]+ (hours?|days?|weeks?|rows))$`}
}

func (v *budgetValue) want() string {
	return "a number of false episodes, as 1/day, 1/30 days or 1/2000 rows"
}
