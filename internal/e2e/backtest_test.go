//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A backtest is what `run` is on a real broker, for rows that have the same version: each version that it scores rows with is on the snapshot topic of a live
// pipeline that had these rows, and scores them alike to the bit; and so it has scored the rows of the output that name it. There are more rows than
// neighbours, so that it counts which rows were kept.
func TestBacktestIsALiveRun(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, c := range []struct {
		name     string
		machines int // each with a model of its own; 0: one model for all
		rows     int
		more     string
		flags    []string
	}{
		{"backtest", 0, 2400, "", nil},
		{"backtest-keyed", 2, 2400, "model: {by: key}\n", []string{"--key", "machine"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &liveRun{stream: newStream(t, b, c.name, settings{partitions: 1, features: "[a, b, c]", more: c.more}), machines: c.machines, rows: c.rows}
			l.write()
			run := l.program("run", "--set", "snapshot.every_rows=1000", "--set", "snapshot.every=0s")
			const parts = 4
			for part := range parts {
				l.produce(part*c.rows/parts, (part+1)*c.rows/parts)
				if c.machines == 0 { // its learner is as far as its models say; it commits what is left by the clock
					l.grow([]uint64{399, 999, 999, 1999}[part], run)
				} else {
					l.await(l.name+".learn", int64((part+1)*c.rows/parts), run)
				}
				for m := range c.machines { // the topic keeps two versions of a model of a value
					for _, version := range [][]int64{{100, 200}, {400}, {800}, {1000}}[part] { // the first is young
						l.export(l.machine(m), version)
					}
				}
			}
			l.await(l.name, int64(c.rows), run)
			run.stop()
			out := filepath.Join(l.dir, "backtest.arrows")
			l.command(append([]string{"backtest", l.csv(), "--rows", out}, c.flags...)...)
			l.compare(out)
		})
	}
}

// liveRun is rows, as a file and as messages of one row each.
type liveRun struct {
	*stream
	machines, rows int
	text           []string // a, b and c of each row
}

func (l *liveRun) csv() string { return filepath.Join(l.dir, "rows.csv") }

func (l *liveRun) machine(i int) string {
	if l.machines == 0 {
		return ""
	}
	return "m" + strconv.Itoa(i%l.machines)
}

// write writes the rows to a file, and those of each machine to one of its own.
func (l *liveRun) write() {
	random := rand.New(rand.NewPCG(5, 5))
	files := map[string]*strings.Builder{}
	add := func(path, line string) {
		if files[path] == nil {
			files[path] = &strings.Builder{}
			files[path].WriteString("machine,a,b,c\n")
		}
		files[path].WriteString(line)
	}
	for i := range l.rows {
		a := random.NormFloat64() + 6*float64(random.IntN(2))
		l.text = append(l.text, fmt.Sprintf("%v,%v,%v", a, a+random.NormFloat64(), 10*random.NormFloat64()))
		line := l.machine(i) + "," + l.text[i] + "\n"
		add(l.csv(), line)
		add(filepath.Join(l.dir, "of-"+l.machine(i)+".csv"), line)
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *liveRun) produce(from, to int) {
	l.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.Addrs()...), kgo.DefaultProduceTopic(l.topic("in")))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		v := strings.Split(l.text[i], ",")
		records = append(records, &kgo.Record{Key: []byte(l.machine(i)), Value: fmt.Appendf(nil, `{"a":%s,"b":%s,"c":%s}`, v[0], v[1], v[2])})
	}
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// compare compares a backtest with what the models of the topic make of the rows, and that with the output topic. A series begins with its first row that a
// model scores, whichever version that is: from there on its means are the same.
func (l *liveRun) compare(path string) {
	l.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	tested, live := whole(l.t, data), l.live()
	versions, added := l.column(tested, "lca_version").(*array.Int64), []string{"lca", "lca_score", "lca_p", "lca_recent_score", "lca_recent_p"}
	scored := map[string]arrow.Record{} // the rows of a machine, by a version
	same, withModel := 0, 0
	begin := map[string][2]int{} // where the rows of a machine that have scores begin: those of the backtest, and live
	for i := l.rows - 1; i >= 0; i-- {
		at := begin[l.machine(i)]
		if versions.IsValid(i) {
			at[0] = i / max(1, l.machines)
		}
		if live[i].version != 0 {
			at[1] = i / max(1, l.machines)
		}
		begin[l.machine(i)] = at
	}
	for i := range l.rows {
		of := func(version int64, begin int) arrow.Record {
			id := fmt.Sprintf("%s@%d from %d", l.machine(i), version, begin)
			if scored[id] == nil {
				scored[id] = l.transformed(l.machine(i), version, begin)
			}
			return scored[id]
		}
		first := begin[l.machine(i)]
		place := i/max(1, l.machines) - first[0] // among the rows of its machine
		if versions.IsValid(i) {
			withModel++
			for _, name := range added {
				if got, want := l.column(tested, name), l.column(of(versions.Value(i), first[0]), name); !array.SliceEqual(got, int64(i), int64(i+1), want, int64(place), int64(place+1)) {
					l.t.Fatalf("row %d, version %d, %s: the backtest has %s, and the model of the topic %s", i, versions.Value(i), name, got.ValueStr(i), want.ValueStr(place))
				}
			}
		}
		if live[i].version == 0 {
			continue
		}
		place = i/max(1, l.machines) - first[1]
		for name, got := range map[string]float32{"lca_score": live[i].Score, "lca_recent_score": live[i].Recent, "lca_recent_p": live[i].RecentP} {
			if want := l.column(of(live[i].version, first[1]), name).(*array.Float32).Value(place); math.Float32bits(got) != math.Float32bits(want) {
				l.t.Fatalf("row %d: the output has %s %v by version %d, and that version makes %v of it", i, name, got, live[i].version, want)
			}
		}
		if versions.IsValid(i) && versions.Value(i) == live[i].version {
			same++
		}
	}
	l.t.Logf("%s: %d of %d rows have a version in the backtest, %d of them the same as live; %d versions", l.name, withModel, l.rows, same, len(scored))
	if least := l.rows - 100*max(1, l.machines); withModel != least {
		l.t.Errorf("%d rows of the backtest have a version, want all but the first 100 of each: %d", withModel, least)
	}
}

func (l *liveRun) column(rec arrow.Record, name string) arrow.Array {
	l.t.Helper()
	at := rec.Schema().FieldIndices(name)
	if len(at) != 1 {
		l.t.Fatalf("no column %s in %v", name, rec.Schema())
	}
	return rec.Column(at[0])
}

// transformed is what a version of the snapshot topic makes of the rows of a machine, from one on.
func (l *liveRun) transformed(machine string, version int64, from int) arrow.Record {
	l.t.Helper()
	model, in, out := l.model(machine, version), filepath.Join(l.dir, "from.csv"), filepath.Join(l.dir, "transformed.arrows")
	text, err := os.ReadFile(filepath.Join(l.dir, "of-"+machine+".csv"))
	if err != nil {
		l.t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(in, []byte(lines[0]+strings.Join(lines[1+from:], "")), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if machine == "" {
		l.export(machine, version)
	}
	l.tool("transform", "--model", model, "--input", in, "-o", out, "--force")
	data, err := os.ReadFile(out)
	if err != nil {
		l.t.Fatal(err)
	}
	return whole(l.t, data)
}

func (l *liveRun) model(machine string, version int64) string {
	return filepath.Join(l.dir, fmt.Sprintf("model-%s-%d.arrows", machine, version))
}

// export takes a version from the snapshot topic.
func (l *liveRun) export(machine string, version int64) {
	l.t.Helper()
	args := []string{"snapshot", "export", "--version", strconv.FormatInt(version, 10), "-o", l.model(machine, version)}
	if machine != "" {
		args = append(args, "--model-id", "default/0/"+machine)
	}
	l.command(args...)
}

// liveRow is a row of the output topic.
type liveRow struct {
	Score   float32 `json:"lca_score"`
	Recent  float32 `json:"lca_recent_score"`
	RecentP float32 `json:"lca_recent_p"`
	version int64
}

// live reads the output topic.
func (l *liveRun) live() (rows []liveRow) {
	l.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(l.Addrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeTopics(l.topic("out")))
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	for len(rows) < l.rows {
		fetches := c.PollFetches(l.t.Context())
		if err := fetches.Err(); err != nil {
			l.t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			var row liveRow
			if err := json.Unmarshal(r.Value, &row); err != nil {
				l.t.Fatalf("%v: %s", err, r.Value)
			}
			for _, h := range r.Headers {
				if h.Key == "lca-model-version" {
					row.version, err = strconv.ParseInt(string(h.Value), 10, 64)
				}
			}
			if err != nil {
				l.t.Fatal(err)
			}
			rows = append(rows, row)
		}
	}
	return rows
}
