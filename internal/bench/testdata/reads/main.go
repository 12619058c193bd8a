// Reads does with our packages what `formats.py read` does with those of Python: it reads a topic, makes a row of numbers of each
// message, and writes nothing. Its argument is the job of formats.py; the last line is what it did, in JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

func main() {
	var job struct {
		Brokers, Registry, Input string
		Features                 []string
		Messages                 int
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &job); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	cluster, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{job.Brokers}})
	if err != nil {
		log.Fatal(err)
	}
	schemas, err := registry.Open(registry.Config{URL: job.Registry})
	if err != nil {
		log.Fatal(err)
	}
	decoder, err := format.NewDecoder(format.Config{Registry: schemas, Columns: job.Features, Only: true})
	if err != nil {
		log.Fatal(err)
	}
	began, wall := processor(), time.Now()
	n, err := read(ctx, cluster, decoder, job.Input, job.Features)
	if err != nil {
		log.Fatal(err)
	}
	if n != job.Messages {
		log.Fatalf("%d rows of %d", n, job.Messages)
	}
	fmt.Printf("{\"messages\": %d, \"cpu\": %f, \"wall\": %f, \"rss\": %f}\n", n, processor()-began, time.Since(wall).Seconds(), peak())
}

// read returns how many rows a topic has.
func read(ctx context.Context, cluster *kafkaconn.Cluster, decoder *format.Decoder, topic string, columns []string) (n int, err error) {
	partitions, err := source.Partitions(ctx, cluster, topic)
	if err != nil {
		return 0, err
	}
	start, err := source.ListOffsets(ctx, cluster, partitions, source.Earliest)
	if err != nil {
		return 0, err
	}
	end, err := source.ListOffsets(ctx, cluster, partitions, source.Latest)
	if err != nil {
		return 0, err
	}
	k, err := source.OpenKafka(ctx, source.KafkaConfig{Cluster: cluster, Start: start, End: end, Decoder: decoder})
	if err != nil {
		return 0, err
	}
	defer k.Close()
	var features minibatch.Features
	var rows minibatch.Rows
	for {
		batch, err := k.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		for _, m := range batch.Messages {
			if m.Err != nil {
				return n, m.Err
			}
			if n == 0 {
				if features, err = minibatch.ResolveRecord(m.Record, columns); err != nil {
					return n, err
				}
			}
			if err := features.Gather(&rows, m.Record); err != nil {
				return n, err
			}
			n += len(rows.Invalid)
		}
		batch.Release()
	}
}

// processor is the time of all cores, in seconds.
func processor() float64 {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// peak is the largest resident size, in MiB.
func peak() float64 {
	status, _ := os.ReadFile("/proc/self/status") // Maxrss counts the program that started this one, too
	for line := range strings.Lines(string(status)) {
		if kib := 0.0; strings.HasPrefix(line, "VmHWM:") {
			_, _ = fmt.Sscanf(line, "VmHWM: %f", &kib)
			return kib / 1024
		}
	}
	return 0
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return u
}
