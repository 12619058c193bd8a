package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// topic NAME N: creates a source topic of N partitions, which the program never does.
func topic(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: topic name n")
		}
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		ts.Value("broker").(*kafkatest.Broker).CreateTopic(t, args[0], n, nil)
	}
}

// produce [-lines] TOPIC[/PARTITION] FILE...: each file, or each line of one, is the value of one message, written in order.
func produce(ts *testscript.TestScript, neg bool, args []string) {
	lines := len(args) > 0 && args[0] == "-lines"
	if lines {
		args = args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: produce [-lines] topic[/partition] file...")
	}
	topic, partition, _ := strings.Cut(args[0], "/")
	to := 0
	if partition != "" {
		var err error
		to, err = strconv.Atoi(partition)
		ts.Check(err)
	}
	var records []kafka.Record
	for _, name := range args[1:] {
		values := []string{ts.ReadFile(name)}
		if lines {
			values = strings.Split(strings.TrimSpace(values[0]), "\n")
		}
		for _, v := range values {
			records = append(records, kafka.Record{Key: kafka.NewBytes([]byte(name)), Value: kafka.NewBytes([]byte(v))})
		}
	}
	send(ts, topic, to, records)
}

// send writes records to a partition.
func send(ts *testscript.TestScript, topic string, partition int, records []kafka.Record) {
	c := ts.Value("broker").(*kafkatest.Broker).Client()
	fresh := &kafka.Transport{} // knows of topics and partitions made a moment ago
	defer fresh.CloseIdleConnections()
	c.Transport = fresh
	answer, err := c.Produce(context.Background(), &kafka.ProduceRequest{
		Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
	})
	if err == nil {
		err = answer.Error
	}
	ts.Check(err)
}

// rows FILE N columns|warm|list|machine|eight|steps: N JSON objects, a line each, of two clusters in the first of four numbers: in
// columns s0 … s3, which are higher by 100 in warm, or in one list column, embedding. A machine has an id, a counter, a regime and a setpoint, too;
// eight has the columns s0 … s7; steps has a column wanted as well, which changes every 250 rows.
func rows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: rows file n columns|warm|list|machine|eight|steps")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	layout := `{"s0":%.4f,"s1":%.4f,"s2":%.4f,"s3":%.4f}`
	if args[2] == "list" {
		layout = `{"embedding":[%.4f,%.4f,%.4f,%.4f]}`
	}
	warm := 0.
	if args[2] == "warm" {
		warm = 100
	}
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	var text strings.Builder
	for i := range n {
		layout := layout
		if args[2] == "machine" {
			layout = fmt.Sprintf(`{"machine_id":7,"seq_no":%d,"regime":%d,"setpoint":1.5,"site":"north",`, 1000*n+i, i%3) + layout[1:]
		}
		if args[2] == "steps" {
			layout = fmt.Sprintf(`{"wanted":%.2f,`, 20+7.5*math.Sin(float64(i/250))) + layout[1:]
		}
		if args[2] == "eight" {
			layout = fmt.Sprintf(`{"s4":%.4f,"s5":%.4f,"s6":%.4f,"s7":%.4f,`, rnd.NormFloat64(), rnd.NormFloat64(), rnd.NormFloat64(), rnd.NormFloat64()) + layout[1:]
		}
		fmt.Fprintf(&text, layout+"\n", warm+9*float64(rnd.IntN(2))+rnd.NormFloat64(), warm+5*rnd.NormFloat64(), warm+rnd.NormFloat64(), warm+3*rnd.NormFloat64())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text.String()), 0o644))
}

// arrives TOPIC N: waits until a read_committed reader of the topic sees N messages, no more.
func arrives(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: arrives topic n")
		}
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		b := ts.Value("broker").(*kafkatest.Broker)
		give := time.Now().Add(3 * time.Minute)
		for {
			n := len(b.ReadCommitted(t, args[0]))
			if n == want {
				return
			}
			if n > want || time.Now().After(give) {
				ts.Fatalf("%s has %d messages, want %d", args[0], n, want)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}

// publish TOPIC FILE ID: the snapshot of a file under the id of a model that belongs to one value, in the partition of the id.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: publish topic file id")
	}
	s, err := app.ReadSnapshotFile(ts.MkAbs(args[1]))
	ts.Check(err)
	_, partition, _, ok := modelkey.Split(args[2])
	if s.ModelID = args[2]; !ok {
		ts.Fatalf("%s is no id of a model that belongs to one value", args[2])
	}
	messages, _, err := snapshot.Messages(s, args[0], 2, nil)
	ts.Check(err)
	records := make([]kafka.Record, len(messages))
	for i, m := range messages {
		records[i] = kafka.Record{Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Whole())}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
	}
	send(ts, args[0], int(partition), records)
}

// grow NAME N: gives a topic N partitions.
func grow(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: grow name n")
		}
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		ts.Value("broker").(*kafkatest.Broker).AddPartitions(t, args[0], n)
	}
}

// forget GROUP: deletes the offsets of a group, as if they had expired.
func forget(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: forget group")
		}
		ts.Value("broker").(*kafkatest.Broker).DeleteGroup(t, args[0])
	}
}

// shows GROUP TOPIC OFFSET: the broker shows another offset of partition 0 as committed, with the note of the one that was, as one that drops the newest
// (KAFKA-17507).
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: shows group topic offset")
	}
	c, topic := ts.Value("broker").(*kafkatest.Broker).Client(), args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	now, err := c.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: args[0], Topics: map[string][]int{topic: {0}}})
	ts.Check(err)
	next, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	done, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: args[0], GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Offset: next, Metadata: now.Topics[topic][0].Metadata}}}})
	ts.Check(err)
	ts.Check(done.Topics[topic][0].Error)
}
