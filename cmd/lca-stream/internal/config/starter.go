package config

import (
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/lca"
)

// Starter is what a first configuration says; everything else stays at its default. The preset is named all the same, because a
// reader must know that there is another.
type Starter struct {
	// Section kafka, how source reads values, source.topic, source.features, lca.preset, model.by, transform.column, transform.format and
	// transform.series are taken from it.
	Config  *Config
	LeftOut []string // why columns are no features, a line each; they become comments
	By      string   // why model.by is what it is; it becomes a comment
}

// StartFor sets what a Starter takes that scores need, or clustering.
func (c *Config) StartFor(clustering bool) {
	if c.LCA.Preset = lca.PresetDensity; clustering {
		c.LCA.Preset = lca.PresetMetric
	}
}

// StartsForScores reports whether a Starter tells episodes.
func (c *Config) StartsForScores() bool { return c.LCA.Preset == lca.PresetDensity }

// PasswordVariable and RegistryVariable are the environment variables that a Starter names in place of passwords and
// secrets, because a configuration is no place to copy them to.
const (
	PasswordVariable = "KAFKA_PASSWORD"
	RegistryVariable = "REGISTRY_PASSWORD"
)

// String returns the file. Load takes it, and each topic and group has a name of its own, derived from the source's.
func (s Starter) String() string {
	topic := s.Config.Source.Topic
	var b strings.Builder
	b.WriteString("# What a first start needs; `lca-stream config example` has every setting with its default.\n\nkafka:\n")
	s.changed(&b, "kafka", "kafka.", PasswordVariable)
	fmt.Fprintf(&b, "\nsource:\n  topic: %s\n  group: %s\n", quote(topic), quote(topic+"-lca"))
	for _, line := range s.LeftOut {
		fmt.Fprintf(&b, "  # left out: %s\n", line)
	}
	if len(s.Config.Source.Features) == 0 {
		fmt.Fprintf(&b, "  features: []   # name the numeric columns: `lca-stream init %s` proposes them\n", topic)
	} else {
		b.WriteString("  " + FeaturesLine(s.Config.Source.Features) + "\n")
	}
	for _, how := range []string{"source.format", "source.schema_file", "source.registry."} {
		s.changed(&b, "source", how, RegistryVariable)
	}
	preset := s.Config.LCA.Preset
	fmt.Fprintf(&b, "\nlca:\n  preset: %v   # %s\n", preset, presetsFor[preset])
	if by := s.Config.Model.By; by.Keyed() {
		b.WriteString("\nmodel:\n")
		if s.By != "" {
			fmt.Fprintf(&b, "  # %s\n", s.By)
		}
		fmt.Fprintf(&b, "  by: %s\n", quote(by.String()))
	}
	for _, t := range s.topics() {
		fmt.Fprintf(&b, "\n%s:\n  topic: %s\n%s", t.section, quote(topic+t.suffix), t.more)
		if t.section == "transform" {
			s.changed(&b, t.section, "transform.format", "")
			s.changed(&b, t.section, "transform.series", "")
		}
	}
	return b.String()
}

// presetsFor says what presets are for.
var presetsFor = map[lca.Preset]string{
	lca.PresetMetric:  "for clustering and neighbours; for scores of how unusual a row is: density",
	lca.PresetDensity: "for scores of how unusual a row is; for clustering and neighbours: metric",
}

type starterTopic struct{ section, suffix, more string }

// topics are ours. Episodes are told where scores are wanted.
func (s Starter) topics() []starterTopic {
	topics := []starterTopic{
		{"snapshot", "-models", "  model_id: " + quote(s.Config.Source.Topic) + "\n"},
		{"checkpoint", "-checkpoints", ""},
		{"transform", "-whitened", s.column()},
	}
	if s.Config.StartsForScores() {
		budget := s.Config.Alarms.Budget
		topics = append(topics, starterTopic{"alarms", "-alarms", "  budget: " + (&budgetValue{&budget}).String() + "   # false episodes that you can live with\n"})
	}
	return append(topics, starterTopic{"dead_letter", "-rejected", ""})
}

// changed writes the settings of a prefix that are not at their defaults, and the brokers in any case. section is the one that
// has been opened.
func (s Starter) changed(b *strings.Builder, section, prefix, variable string) {
	defaults := Keys(Default())
	for i, k := range Keys(s.Config) {
		value := k.String()
		if !strings.HasPrefix(k.Path, prefix) || k.Path != "kafka.brokers" && value == defaults[i].String() {
			continue
		}
		if _, secret := k.value.(*secretValue); secret {
			value = "${" + variable + "}   # set it in the environment"
		}
		parent, name := parent(k.Path)
		if parent != section {
			fmt.Fprintf(b, "%s%s:\n", indent(parent), parent[strings.LastIndexByte(parent, '.')+1:])
			section = parent
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent(k.Path), name, value)
	}
}

// column is the line that names the output's columns, "" where they have the default.
func (s Starter) column() string {
	if c := s.Config.Transform.Column; c != Default().Transform.Column {
		return "  column: " + quote(c) + "   # the input has columns of the name that is the default\n"
	}
	return ""
}

// FeatureName returns an error if source.features cannot hold a name.
func FeatureName(name string) error { return feature.check(name) }

// FeaturesLine is the line of section source that names the features.
func FeaturesLine(names []string) string {
	return "features: " + (&listValue{p: &names}).String()
}

// indent is the white space before a key.
func indent(path string) string { return strings.Repeat("  ", strings.Count(path, ".")) }
