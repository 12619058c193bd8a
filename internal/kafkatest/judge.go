//go:build unix

package kafkatest

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

//go:embed checker/*.py
var checker embed.FS

// Check says what to judge. See checker/check.py, and the codes of checker/verify.py.
type Check struct {
	Input, Output, Snapshots, DeadLetters string // topics; no DeadLetters: none is allowed
	Alarms                                string // topic
	Registry                              string // URL of the schemas that messages name
	Budget                                string // alarms.budget, where there are Alarms
	Shares                                int    // partitions that share it; default those of Input
	ModelID                               string // default "default"
	ByKey                                 bool   // model.by: key
	OnInvalid                             string // default "null"
	Layout                                string // default "vector"
	NoScore, NoP, NoRecent                bool
	Series                                string // default "partition"; "key": transform.series
	NoPassthrough, WithoutModel           bool
	Why                                   int  // transform.why
	Former                                bool // the first edition has written some of the output: without lca_p
	MinRows, MinVersions                  int  // the check fails with fewer verified rows, or fewer versions in use; default 1
}

// Verdict is what the judge found.
type Verdict struct {
	OK            bool                `json:"ok"`
	Codes         map[string]int      `json:"codes"`
	Examples      map[string][]string `json:"examples"`
	Rows          int                 `json:"rows"` // verified rows
	Messages      int                 `json:"messages"`
	InputMessages int                 `json:"input_messages"`
	NullRows      int                 `json:"null_rows"`
	DeadLetters   int                 `json:"dead_letters"`
	Versions      int                 `json:"versions"` // versions that rows name
	FirstVersion  int                 `json:"first_version"`
	LastVersion   int                 `json:"last_version"`
	Models        int                 `json:"models"`                 // in the snapshot topic
	Aborted       int                 `json:"aborted"`                // output records of aborted transactions
	WorstValue    float64             `json:"worst_value"`            // relative error of y
	WorstBound    float64             `json:"worst_value_over_bound"` // largest error as a share of its bound, 32 roundings of float32
	WorstScore    float64             `json:"worst_score"`
	PRows         int                 `json:"p_rows"`       // rows whose lca_p was verified
	WorstP        float64             `json:"worst_p"`      // relative error of lca_p
	RecentRows    int                 `json:"recent_rows"`  // rows whose lca_recent_score was verified
	EpisodeRows   int                 `json:"episode_rows"` // rows of episodes
	ImputedRows   int                 `json:"imputed_rows"` // rows with features that were filled
	Alarms        map[string]int      `json:"alarms"`       // by type
	WhyRows       int                 `json:"why_rows"`
	WorstWhy      float64             `json:"worst_why"`
	Enough        bool                `json:"enough"`
	Seconds       float64             `json:"seconds"`
}

// Check reads the topics with librdkafka, pyarrow and numpy, recomputes every value and score from
// the snapshot that each record names, and fails the test unless every input record is in the output
// or the dead letters exactly once, in order, right, and under versions that never go back.
func (b *Broker) Check(t testing.TB, c Check) Verdict {
	t.Helper()
	v := b.Judge(t, c)
	if !v.OK || !v.Enough {
		t.Errorf("kafkatest: the checker found: %v, enough: %v\n%s", v.Codes, v.Enough, indent(v))
	}
	return v
}

// Judge is Check without failing the test: for showing that a fault is found.
func (b *Broker) Judge(t testing.TB, c Check) Verdict {
	t.Helper()
	args := []string{"--brokers", strings.Join(b.addrs, ","), "--input", c.Input, "--output", c.Output, "--snapshots", c.Snapshots}
	for flag, value := range map[string]string{"--dead-letters": c.DeadLetters, "--alarms": c.Alarms, "--registry": c.Registry, "--model-id": c.ModelID, "--on-invalid": c.OnInvalid, "--layout": c.Layout, "--series": c.Series, "--budget": c.Budget} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	for flag, on := range map[string]bool{"--no-score": c.NoScore, "--no-p": c.NoP, "--no-recent": c.NoRecent, "--former": c.Former, "--no-passthrough": c.NoPassthrough, "--by-key": c.ByKey, "--without-model": c.WithoutModel} {
		if on {
			args = append(args, flag)
		}
	}
	args = append(args, "--shares", strconv.Itoa(c.Shares), "--why", strconv.Itoa(c.Why), "--min-rows", strconv.Itoa(max(1, c.MinRows)), "--min-versions", strconv.Itoa(max(1, c.MinVersions)))
	cmd := python(t, "check.py", args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	var v Verdict
	if errors.As(err, &exit) && exit.ExitCode() > 2 || err != nil && exit == nil {
		t.Fatalf("kafkatest: %v: %v\n%s", cmd, err, stderr(err))
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("kafkatest: %v printed %q: %v\n%s", cmd, out, err, stderr(exit))
	}
	return v
}

// Load says what to write into a topic. See checker/load.py.
type Load struct {
	Topic      string
	Data       string // "sensors", or the path of digits.arrow
	Format     string // arrow, the default; json and json_schema: objects, arrays and lines in turn; avro: one row per message
	Registry   string // URL, for avro and json_schema
	Rows       int
	PerMessage int
	Rate       int     // rows per second; 0: as fast as it goes
	Bad        float64 // share of messages that cannot be used
	Invalid    float64 // share of messages with a null, NaN or Inf
	Seed       int
	Fault      int           // a sensor of partition 0 is wrong in each second stretch of that number of messages; 0: in none
	Apart      time.Duration // timestamps of messages are so far apart, from two days ago to now; 0: they are those of the writing
}

// Loaded is what was written.
type Loaded struct {
	Rows     int     `json:"rows"`
	Messages int     `json:"messages"`
	Bad      int     `json:"bad"`
	Invalid  int     `json:"invalid"`
	Seconds  float64 `json:"seconds"`
}

// Load writes in the background; wait returns once all is acknowledged, and stop ends it early.
func (b *Broker) Load(t testing.TB, l Load) (wait func() Loaded, stop func()) {
	t.Helper()
	cmd := python(t, "load.py", "--brokers", strings.Join(b.addrs, ","), "--topic", l.Topic, "--data", l.Data, "--format", cmp.Or(l.Format, "arrow"), "--registry", l.Registry,
		"--rows", strconv.Itoa(l.Rows), "--per-message", strconv.Itoa(max(1, l.PerMessage)), "--rate", strconv.Itoa(l.Rate),
		"--bad", fmt.Sprint(l.Bad), "--invalid", fmt.Sprint(l.Invalid), "--seed", strconv.Itoa(max(1, l.Seed)), "--fault", strconv.Itoa(l.Fault), "--apart", fmt.Sprint(l.Apart.Seconds()))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	p := StartProcess(t, cmd, "")
	t.Cleanup(p.Kill)
	wait = func() (done Loaded) {
		t.Helper()
		<-p.done
		if err := json.Unmarshal([]byte(out.String()), &done); err != nil {
			t.Fatalf("kafkatest: %v ended with %v\n%s%s", cmd, cmd.ProcessState, out.String(), errs.String())
		}
		return done
	}
	return wait, p.Terminate
}

// python prepares one of the checker's programs.
func python(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	files, err := checker.ReadDir("checker")
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	for _, f := range files {
		text, err := checker.ReadFile("checker/" + f.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f.Name()), text, 0o644)
		}
		if err != nil {
			t.Fatalf("kafkatest: %v", err)
		}
	}
	cmd := exec.Command(testtools.Python(t), append([]string{filepath.Join(dir, program)}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

func indent(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
