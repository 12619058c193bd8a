package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// A login of any kind is taken over, and its secret stays where it is.
func TestStarterTakesTheLogin(t *testing.T) {
	environment := map[string]string{PasswordVariable: "top secret"}
	for name, login := range map[string]SASL{
		"password": {Mechanism: kafkaconn.SASLScramSHA512, Username: "ann", Password: "top secret"},
		"token":    {Mechanism: kafkaconn.SASLOAuthBearer, OAuth: OAuth{TokenURL: "https://id/token", ClientID: "lca", ClientSecret: "top secret", Scopes: []string{"kafka"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, "", nil)
			empty := c.Kafka.SASL.OAuth
			if login.OAuth.Scopes == nil {
				login.OAuth = empty
			}
			login.OAuth.Extensions = empty.Extensions
			c.Kafka.TLS.Enabled, c.Kafka.SASL = true, login
			text := Starter{Config: c}.String()
			if diff := cmp.Diff(c.Kafka, mustLoad(t, text, environment).Kafka); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
		})
	}
}

// How values are read is taken over too, without the password.
func TestStarterTakesTheRegistry(t *testing.T) {
	c := mustLoad(t, "", nil)
	c.Source.Format = "avro"
	c.Source.Registry.URL, c.Source.Registry.Username, c.Source.Registry.Password = "https://registry:8081/apis/ccompat/v7", "ann", "top secret"
	text := Starter{Config: c}.String()
	got := mustLoad(t, text, map[string]string{RegistryVariable: "top secret"}).Source
	if got.Format != c.Source.Format || got.Registry != c.Source.Registry || strings.Contains(text, "top secret") {
		t.Errorf("%+v\n%s", got, text)
	}
}

// Values that name no schema come out as something else, which a file that lint accepts has to say.
func TestStarterTakesTheSchemaFile(t *testing.T) {
	c := mustLoad(t, "source: {format: avro, schema_file: row.avsc}\ntransform: {format: json}", nil)
	got := mustLoad(t, Starter{Config: c}.String(), nil)
	if got.Source.SchemaFile != "row.avsc" || got.Transform.Format != c.Transform.Format {
		t.Errorf("%+v %v", got.Source, got.Transform.Format)
	}
}

// Which rows are a series was found out with the features.
func TestStarterTakesTheSeries(t *testing.T) {
	for _, series := range []string{"auto", "key", "header:line", "column:a.b"} {
		c := mustLoad(t, "transform: {series: "+quote(series)+"}", nil)
		text := Starter{Config: c}.String()
		if got := mustLoad(t, text, nil).Transform.Series; got.String() != series || strings.Contains(text, "series:") != (series != "auto") {
			t.Errorf("%s: %s\n%s", series, got, text)
		}
	}
}

// Whatever the columns of a topic are called, the file that names them names the same.
func TestStarterTakesAnyName(t *testing.T) {
	names := []string{"plain", "a,b", `say "hi"`, "it's", "über", "a.b", "a: b", "a:", ":", "#x", "x #y", "{y}", "[0]", "- z", "-", "true", "null", "~", "1", "0x1f", "1e3",
		"${HOME}", "$${HOME}", "$$${", "${", "$", `back\slash`, `\n`, "line\nbreak", "line\r\nbreak", "\n", " lead", "trail ", " ", "\t", "日本", "🙂", "e\u0301", "\u00a0", "\u2028", "\ufeff", "\u0085",
		"%", "@a", "`", "!tag", "&a", "*a", "|", ">", "? a", "=", "<<", "a\\", `\"`, strings.Repeat("n", 1024)}
	for c := range rune(0x7f) {
		if name := "x" + string(c) + "y"; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	c := mustLoad(t, "", nil)
	for _, name := range names {
		if err := FeatureName(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
		c.Source.Features = []string{name}
		if diff := cmp.Diff(c.Source.Features, mustLoad(t, Starter{Config: c}.String(), nil).Source.Features); diff != "" {
			t.Errorf("%q alone: %s", name, diff)
		}
	}
	c.Source.Features = names
	text := Starter{Config: c, LeftOut: []string{`"line\nbreak": text`}}.String()
	if diff := cmp.Diff(names, mustLoad(t, text, nil).Source.Features); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
	for _, name := range []string{"", "\xff", strings.Repeat("n", 1025)} {
		if FeatureName(name) == nil {
			t.Errorf("%q can be written, and is not UTF-8, or has no bytes or too many", name)
		}
	}
}
