package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load reads a document from memory, with an environment of its own.
func load(doc string, env map[string]string, set ...string) (*Config, error) {
	return Load(Input{File: "-", Stdin: strings.NewReader(doc), Set: set, Getenv: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}})
}

func mustLoad(t *testing.T, doc string, env map[string]string, set ...string) *Config {
	t.Helper()
	c, err := load(doc, env, set...)
	if err != nil {
		t.Fatalf("faults in\n%s\n%v", doc, err)
	}
	return c
}

func faultsOf(t *testing.T, doc string, set ...string) Faults {
	t.Helper()
	_, err := load(doc, nil, set...)
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("no faults (%v) in\n%s", err, doc)
	}
	return faults
}

func TestDefaultsArePromised(t *testing.T) {
	promised, err := os.ReadFile("testdata/promised.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{} // from nothing: what the file does not say stays zero
	d := newDecoder(c, os.LookupEnv)
	d.decode("promised.yaml", promised)
	d.validate()
	if len(d.faults) > 0 {
		t.Fatal(d.faults)
	}
	if diff := cmp.Diff(c, Default()); diff != "" {
		t.Errorf("promised and default configuration differ (-promised +default):\n%s", diff)
	}
	for _, k := range Keys(c) {
		if _, ok := d.places[k.Path]; !ok {
			t.Errorf("%s is in the table, but not promised in testdata/promised.yaml", k.Path)
		}
	}
}

func TestEmptyFileIsDefault(t *testing.T) {
	for name, doc := range map[string]string{
		"nothing": "", "a comment": "# nothing\n", "document marker": "---\n", "sections without keys": "kafka:\n  tls:\nlca:\n  # gamma: 0.5\nminibatch: {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Default(), mustLoad(t, doc, nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A value is read as the key wants it, however YAML would type it.
func TestValuesAreReadByKey(t *testing.T) {
	c := mustLoad(t, `
kafka:
  brokers: &b [a:1, "b:2"]
  sasl: {mechanism: plain, username: 007, password: 1e3}
source:
  group: yes
  partitions: ["0-2", 7]
  on_invalid: null
  features: [x, "y, z", 1]
lca: {nu: [1e-2, 1e-3], metric: low_rank:2, pass_rows: 6000, outlier_gate: off}
snapshot: {every: 1m30s}
memory: {limit: 134217728}
transform:
  column: >-
    folded
    text
`, nil)
	want := Default()
	want.Kafka.Brokers = []string{"a:1", "b:2"}
	want.Kafka.SASL.Mechanism, want.Kafka.SASL.Username, want.Kafka.SASL.Password = "plain", "007", "1e3"
	want.Source.Group, want.Source.Partitions = "yes", []int32{0, 1, 2, 7}
	want.Memory.Limit, want.Source.Features = 128<<20, []string{"x", "y, z", "1"}
	want.LCA.Nu, want.LCA.Metric, want.LCA.PassRows = [2]float64{0.01, 0.001}, "low_rank:2", 6000
	want.LCA.OutlierGate = infinity
	want.Snapshot.Every = 90e9
	want.Transform.Column = "folded text"
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestInterpolation(t *testing.T) {
	env := map[string]string{"TOPIC": "t1", "BROKERS": "a:1, b:2", "EMPTY": "", "PASS": `p: "#{}`, "ROWS": "7", "NESTED": "${TOPIC}"}
	for _, c := range []struct {
		name, doc string
		got       func(*Config) any
		want      any
		fault     string
	}{
		{"whole value", "source: {topic: '${TOPIC}'}", func(c *Config) any { return c.Source.Topic }, "t1", ""},
		{"part of a value", "source: {topic: 'a.${TOPIC}.b'}", func(c *Config) any { return c.Source.Topic }, "a.t1.b", ""},
		{"without quotes in block style", "source:\n  topic: ${TOPIC}", func(c *Config) any { return c.Source.Topic }, "t1", ""},
		{"a number", "minibatch:\n  rows: ${ROWS}", func(c *Config) any { return c.Minibatch.Rows }, 7, ""},
		{"default not needed", "minibatch:\n  rows: ${ROWS:8}", func(c *Config) any { return c.Minibatch.Rows }, 7, ""},
		{"default", "minibatch:\n  rows: ${OTHER:8}", func(c *Config) any { return c.Minibatch.Rows }, 8, ""},
		{"default with colons", "kafka:\n  brokers: ${OTHER:c:3}", func(c *Config) any { return c.Kafka.Brokers }, []string{"c:3"}, ""},
		{"empty default", "dead_letter:\n  topic: ${OTHER:}", func(c *Config) any { return c.DeadLetter.Topic }, "", ""},
		{"set but empty beats the default", "dead_letter:\n  topic: ${EMPTY:x}", func(c *Config) any { return c.DeadLetter.Topic }, "", ""},
		{"a list in one variable", "kafka:\n  brokers: ${BROKERS}", func(c *Config) any { return c.Kafka.Brokers }, []string{"a:1", "b:2"}, ""},
		{"an item", "kafka:\n  brokers: [z:9, '${OTHER:c:3}']", func(c *Config) any { return c.Kafka.Brokers }, []string{"z:9", "c:3"}, ""},
		{"a value cannot break the YAML", "kafka: {sasl: {mechanism: plain, username: u, password: '${PASS}'}}", func(c *Config) any { return string(c.Kafka.SASL.Password) }, `p: "#{}`, ""},
		{"not looked into again", "transform:\n  column: ${NESTED}", func(c *Config) any { return c.Transform.Column }, "${TOPIC}", ""},
		{"escaped", "transform:\n  column: $${TOPIC}", func(c *Config) any { return c.Transform.Column }, "${TOPIC}", ""},
		{"unset", "source:\n  topic: ${OTHER}", nil, nil, "<stdin>:2:10: source.topic: environment variable OTHER is not set; set it, or give a default: ${OTHER:default}"},
		{"unfinished", "source:\n  topic: ${TOPIC", nil, nil, "<stdin>:2:10: source.topic: has a ${ that begins no variable; write ${NAME} or ${NAME:default}, or $${ for a plain ${"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := load(c.doc, env)
			if c.fault != "" {
				var faults Faults
				if !errors.As(err, &faults) || len(faults) != 1 || faults[0].String() != c.fault {
					t.Fatalf("got %v\nwant %s", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.got(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSet(t *testing.T) {
	doc := "minibatch: {rows: 5}\nkafka: {brokers: [a:1, b:2]}\n"
	c := mustLoad(t, doc, nil, "minibatch.rows=6", "minibatch.rows=7", "kafka.brokers=c:3,d:4", "source.features=[x, y]",
		"kafka.sasl.mechanism=plain", "kafka.sasl.username=u", "kafka.sasl.password=a=b: #c")
	if c.Minibatch.Rows != 7 || len(c.Kafka.Brokers) != 2 || c.Kafka.Brokers[1] != "d:4" || c.Kafka.SASL.Password != "a=b: #c" {
		t.Errorf("got %+v %+v", c.Minibatch, c.Kafka)
	}
	if diff := cmp.Diff([]string{"x", "y"}, c.Source.Features); diff != "" {
		t.Error(diff)
	}
	for set, want := range map[string]string{
		"minibatch.rows":      `--set:1:1: "minibatch.rows" has no =; write --set key.path=value`,
		"minibatch=3":         "--set:1:1: minibatch: is a section, not a value; it holds rows",
		"minibatch.row=3":     `--set:1:1: minibatch.row: is not a key; did you mean "rows"?`,
		"minbatch.rows=3":     `--set:1:1: minbatch.rows: is not a key; did you mean "minibatch"?`,
		"minibatch.rows=0":    "--set:1:16: minibatch.rows: 0 is out of range; want a whole number, 1 … 100000",
		"kafka.brokers=a:1,b": `--set:1:15: kafka.brokers: "b" is not host:port; want a list of at least 1: an address host:port, such as localhost:9092`,
	} {
		faults := faultsOf(t, doc, set)
		if len(faults) != 1 || faults[0].String() != want {
			t.Errorf("--set %s\n got %v\nwant %s", set, faults, want)
		}
	}
}

// A value that --set replaces is not judged; the file around it still is.
func TestSetReplacesWhatTheFileSays(t *testing.T) {
	c := mustLoad(t, "minibatch: {rows: 0}\n", nil, "minibatch.rows=3")
	if c.Minibatch.Rows != 3 {
		t.Errorf("rows = %d", c.Minibatch.Rows)
	}
}

func TestEveryFaultIsReportedInOrder(t *testing.T) {
	faults := faultsOf(t, "minibatch: {rows: 0}\nsouce: {}\nlca: {gamma: 2, metric: round}\nsource: {topic: whitened}\n", "http.listen=x")
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprintf("%s:%d:%d %s", f.File, f.Line, f.Column, f.Path))
	}
	want := []string{"<stdin>:1:19 minibatch.rows", "<stdin>:2:1 souce", "<stdin>:3:14 lca.gamma", "<stdin>:3:25 lca.metric", "<stdin>:4:17 source.topic", "--set:1:13 http.listen"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCaretAfterLettersOfSeveralBytes(t *testing.T) {
	faults := faultsOf(t, "source: {group: 'größe→', topic: 'x y'}\r\n")
	want := "   1 | source: {group: '********', topic: 'x y'}\n     |                                    ^^^^^\n"
	if len(faults) != 1 || faults[0].Excerpt() != want {
		t.Errorf("got\n%swant\n%s", faults[0].Excerpt(), want)
	}
}

func TestFileFaults(t *testing.T) {
	dir := t.TempDir()
	for name, in := range map[string]string{"missing": dir + "/none.yaml", "a directory": dir} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(Input{File: in, Getenv: os.LookupEnv})
			var faults Faults
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].File != in || faults[0].Remedy == "" || strings.Count(faults[0].String(), in) > 2 {
				t.Errorf("got %v", err)
			}
		})
	}
	_, err := load(strings.Repeat("# much\n", maxFile/6), nil)
	if err == nil || !strings.Contains(err.Error(), "is larger than 1MiB") {
		t.Errorf("a file past the bound: %v", err)
	}
}

// However the key of a secret is spelt, wherever it stands, and whatever is wrong near it, its value is shown nowhere.
func TestSecretsStayHidden(t *testing.T) {
	const secret = "hunter2"
	docs := map[string]string{
		"print":                     "kafka: {sasl: {mechanism: plain, username: u, password: hunter2}}",
		"fault on the same line":    "kafka: {sasl: {mechanism: plian, username: u, password: hunter2, x: 1}}",
		"cannot be parsed":          "kafka: {sasl: {password: hunter2}]}",
		"quoted, with a fault":      "kafka: {sasl: {password: \"hunter2 x\", usrname: 1}}",
		"a fault of its own":        "kafka: {sasl: {mechanism: plain, username: u, password: [hunter2]}}",
		"too long":                  "kafka: {sasl: {mechanism: plain, username: u, password: " + strings.Repeat(secret, 200) + "}}",
		"a slip in the key":         "kafka: {sasl: {pasword: hunter2, username: u}}",
		"a slip, on a line":         "kafka:\n  sasl:\n    passwort: 'hunter2 x'\n",
		"another word for it":       "kafka: {sasl: {passwd: \"hunter2\"}}",
		"in capitals":               "kafka: {sasl: {Password: hunter2}}",
		"with an unset variable":    "kafka: {sasl: {mechanism: plain, username: u, password: \"hunter2${UNSET}\"}}",
		"of OAuth, next to a fault": "kafka: {sasl: {mechanism: oauthbearr, oauth: {client_secret: hunter2, client_id: x}}}",
		"too high":                  "kafka: {sasl: {client_secret: hunter2}}",
		"too high, on a line":       "client_secret: hunter2",
		"without its underscore":    "kafka: {sasl: {oauth: {clientsecret: hunter2}}}",
		"with a hyphen":             "kafka: {sasl: {oauth: {client-secret: hunter2}}}",
		"another slip":              "kafka: {sasl: {oauth: {client_secert: hunter2}}}",
		"as Java names it":          "kafka:\n  sasl.jaas.config: x required username=\"u\" password=\"hunter2\";\n",
		"API key":                   "kafka: {sasl: {api_key: hunter2}}",
		"spaces without quotes":     "kafka: {sasl: {mechanism: plian, password: correct horse hunter2, username: u}}",
		"commas without quotes":     "kafka: {sasl: {password: correct, hunter2, more hunter2: x}}",
		"other quotes":              "kafka: {sasl: {password: 'correct \" hunter2', usrname: 1}}",
		"an escaped key":            "kafka:\n  sasl:\n    \"p\\u0061ss\\x77ord\": hunter2\n    x: 1\n",
		"a login of Java's":         "source: {registry: {basic.auth.user.info: 'u:hunter2', x: 1}}",
		"an open quote":             "kafka:\n  sasl:\n    password: \"correct\n horse hunter2\n",
		"no space":                  "kafka:\n  sasl:\n    password:hunter2\n    username: u\n",
		"no space, as a key":        "kafka:\n  sasl:\n    password:hunter2: u\n",
		"no colon":                  "kafka:\n  sasl:\n    password hunter2\n    username: u\n",
		"a block of lines":          "kafka:\n  sasl:\n    password: |\n      correct\n      hunter2: x\n     : ]\n  x: 1\n",
		"on the next line":          "kafka: {sasl: {pasword:\nhunter2, x: [}}",
		"a list":                    "kafka:\n  sasl:\n    password:\n    - hunter2\n",
		"a section":                 "kafka:\n  sasl:\n    password:\n      hunter2x: hunter2\n",
		"tabs":                      "kafka:\n\tsasl: {password:\thunter2}\n",
		"an anchor":                 "x: &a hunter2\nkafka: {sasl: {mechanism: plain, username: u, password: *a}}",
		"JSON":                      `{"kafka": {"sasl": {"passwrd" : "hunter2", "client_secret":"hunter2"}}}`,
		"in an address":             "source: {registry: {url: \"https://u:hunter2/@x@registry:8081\"}}",
		"behind an address":         "source: {registry: {url: https://registry:8081?key=hunter2}}",
		"of the OAuth server":       "kafka: {sasl: {mechanism: oauthbearer, oauth: {token_url: https://u:hunter2@id/token, client_id: x, client_secret: hunter2}}}",
		"an address with a space":   "source: {registry: {url: \"https://u:hunter2@ registry:8081\"}}",
		"a quote within quotes":     "kafka: {sasl: {mechanism: xx, password: 'it''s hunter2', username: u}}",
		"an escape within quotes":   "kafka: {sasl: {mechanism: xx, client_secret: \"a\\\"b hunter2\", username: u}}",
		"such a one, on lines":      "kafka: {sasl: {password: 'it\n  isn''t hunter2', x: [}}",
		"an address of no scheme":   "source: {registry: {url: \"u:hunter2@h:8081\"}}",
		"an address of one slash":   "source: {registry: {url: \"http:/u:hunter2@h:8081\"}}",
		"a part of an address":      "source: {registry: {url: \"http://h:8081/#hunter2\"}}",
		"a header's name":           "source: {registry: {authorization: hunter2}}",
		"another language":          "kafka:\n  sasl:\n    kennwort: hunter2\n    username: u\n",
		"another script":            "kafka: {sasl: {пароль: hunter2, username: u}}",
		"several words":             "kafka:\n  sasl:\n    mot de passe: hunter2\n",
		"several words in quotes":   "kafka: {sasl: {\"mot de passe\": hunter2, x: 1}}",
		"a key of signs":            "kafka: {sasl: {$$: hunter2, x[0]: hunter2, \"\": hunter2}}",
		"an item of another":        "kafka:\n  brokers:\n  - a:1\n  - kennwort: hunter2\n",
		"properties":                "kennwort=hunter2\nsasl.kennwort=hunter2\n",
		"JSON, another language":    `{"kafka":{"sasl":{"kennwort":"hunter2","x":1}}}`,
		"as a key":                  "kafka: {sasl: {x9hunter2hunter2: 1}}",
		"as a key, on a line":       "kafka:\n  sasl:\n    x9-hunter2: 1\n    x9-hunter2: 1\n",
		"as a key, long":            "kafka:\n  sasl:\n    correct-horse-battery-hunter: hunter2\n",
		"as a section":              "x9hunter2: {a: 1}\n",
		"alone":                     "hunter2",
		"a line of its own":         "kafka:\n  sasl:\n    username: u\n    hunter2\n",
		"a line of its own, folded": "kafka:\n  brokers: a:1\n    hunter2\n",
		"an alias":                  "kafka: {sasl: {password: *hunter2}}",
		"a directive":               "kafka: {sasl: {password: %hunter2}}",
		"a reserved sign":           "kafka:\n  sasl:\n    password: @hunter2\n",
		"a comment":                 "kafka: {brokers: [], x: 1} # kennwort: hunter2",
		"the text of a key":         "kafka: {tls: {enabled: true, cert_file: c, key_file: \"-----BEGIN PRIVATE KEY----- hunter2\"}}",
		"the text of a key, lines":  "kafka:\n  tls:\n    key_file: |\n      -----BEGIN PRIVATE KEY-----\n      hunter2\n    cert_file: c\n",
		"the text of a key, bare":   "kafka:\n  tls:\n    key_file: -----BEGIN PRIVATE KEY-----\n      hunter2\n      -----END PRIVATE KEY-----\n",
		"a hash":                    "kafka: {brokers: [aBc4hunter2aBc4aBc4aBc4aBc4aBc4aBc4aBc4aBc4]}",
		"behind the OAuth server":   "kafka: {sasl: {mechanism: oauthbearer, oauth: {token_url: https://id/token?key=hunter2, client_id: x, client_secret: hunter2}}}",
	}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			c, err := load(doc, nil)
			shown := ""
			if err != nil {
				said, _ := json.Marshal(err)
				shown = err.Error() + string(said)
			} else {
				shown = Print(c) + fmt.Sprintf("%v %+v %#v", *c, *c, *c)
			}
			if strings.Contains(shown, secret) {
				t.Errorf("shows the secret:\n%s", shown)
			}
			if !strings.Contains(shown, mask) && !strings.Contains(shown, "is a text of several lines") && !strings.Contains(shown, "password: |\n") {
				t.Errorf("shows no mask:\n%s", shown)
			}
		})
	}
	for _, set := range []string{
		"kafka.sasl.password=hunter2", "kafka.sasl.oauth.client_secret=hunter2", "kafka.sasl.oauth.client_secret=correct horse hunter2",
		"kafka.sasl.client_secret=hunter2", "kafka.sasl.password:hunter2", "kafka.sasl.password hunter2", "kafka.sasl.pasword:hunter2=x",
		"kafka.sasl.kennwort=hunter2", "kennwort:hunter2", "kennwort hunter2", "x9hunter2hunter2", "kafka.sasl.x9hunter2=1", "kafka.tls.key_file=-----BEGIN PRIVATE KEY----- hunter2",
		"source.registry.url=https://u:hunter2@x", "kafka.sasl.oauth.token_url=https://u:hunter2@x",
	} {
		if shown := faultsOf(t, "", set).Error(); strings.Contains(shown, secret) || !strings.Contains(shown, mask) {
			t.Errorf("--set %s shows:\n%s", set, shown)
		}
	}
}

// The place of a key that is none, its name and the key that was meant are shown, but no more of what may be a secret itself.
func TestUnknownKeysAreNamed(t *testing.T) {
	for doc, want := range map[string]string{
		"source: {tpoic: events, topic: x}":                    "<stdin>:1:10: source.tpoic: is not a key; did you mean \"topic\"?\n   1 | source: {tpoic: ********, topic: x}\n     |          ^^^^^",
		"source:\n  topik: events\n  group: g":                 "<stdin>:2:3: source.topik: is not a key; did you mean \"topic\"?\n   2 |   topik: ********\n     |   ^^^^^",
		"source:\n  T0pic: events\n":                           "<stdin>:2:3: source.T0********: is not a key; did you mean \"topic\"?\n   2 |   T0********: ********\n     |   ^^^^^^^^^^",
		"x9hunter2: 1":                                         "<stdin>:1:1: x9********: is not a key; the keys here are ",
		"kafka: {sasl: {" + strings.Repeat("ab", 20) + ": 1}}": "<stdin>:1:16: kafka.sasl.ab********: is not a key; the keys of kafka.sasl are ",
	} {
		if said := faultsOf(t, doc).Error(); !strings.HasPrefix(said, want) {
			t.Errorf("%s:\n%s\nwant\n%s", doc, said, want)
		}
	}
}

// The value at fault is shown, and the names of settings around it: a person must see what is wrong.
func TestWhatIsAtFaultIsShown(t *testing.T) {
	for doc, want := range map[string]string{
		"transform: {passthrough: tru, column: x}":            "   1 | transform: {passthrough: tru, column: x}\n     |                          ^^^\n",
		"kafka:\n  brokers:\n  - a:1\n  - 'b c@d'\n":          "   4 |   - 'b c@d'\n     |     ^^^^^^^\n",
		"lca:\n  gamma: 1.5   # .5\n":                         "   2 |   gamma: 1.5   # ********\n     |          ^^^\n",
		"{\"kafka\": {\"sasl\": {\"mechanism\": \"plian\"}}}": "   1 | {\"kafka\": {\"sasl\": {\"mechanism\": \"plian\"}}}\n     |                                  ^^^^^^^\n",
	} {
		if said := faultsOf(t, doc).Error() + "\n"; !strings.Contains(said, want) {
			t.Errorf("%s:\n%s\nwant\n%s", doc, said, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(Example())
	f.Add("a: &x [*x]\n")
	f.Add("? {a: 1}\n: b\n")
	f.Add("kafka: {brokers: [\n\t")
	f.Add("lca: !!str\n  gamma: |\n    0.5\n")
	f.Fuzz(func(t *testing.T, doc string) {
		_, err := load(doc, nil)
		var faults Faults
		if err == nil || !errors.As(err, &faults) {
			return
		}
		lines := len(lineEnd.Split(doc, -1))
		for _, fault := range faults {
			if fault.Line > lines || fault.Message == "" || fault.Remedy == "" {
				t.Errorf("fault %+v in a document of %d lines", fault, lines)
			}
			_ = fault.Excerpt()
		}
	})
}

// What the learner would refuse at its first record is a fault before that, as far as the columns are named.
func TestCheckpointThatIsTooLarge(t *testing.T) {
	for _, c := range []struct {
		columns int
		faulty  bool
	}{{0, false}, {1, false}, {268, false}, {269, true}} {
		names := make([]string, c.columns)
		for i := range names {
			names[i] = fmt.Sprint("c", i)
		}
		doc := "source: {features: [" + strings.Join(names, ", ") + "]}\nlca: {neighbours: 1000000}"
		if !c.faulty {
			mustLoad(t, doc, nil)
			continue
		}
		if said := faultsOf(t, doc).Error(); !strings.Contains(said, "lca.neighbours") || !strings.Contains(said, "1073741824 is the most") {
			t.Errorf("%d columns: %s", c.columns, said)
		}
	}
}
