// Command module is a program of another module: it fits a model to the rows of a topic, whitens the same rows with
// it, and reads back what it wrote. TestAnotherModule builds and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

const group = "another-module"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, brokers []string, input, output string) error {
	cluster, err := kafkaconn.Open(kafkaconn.Config{Brokers: brokers, ClientID: group})
	if err != nil {
		return err
	}
	defer cluster.Close()
	features, x, err := rowsOf(ctx, cluster, input)
	if err != nil {
		return err
	}
	c := lca.DefaultConfig()
	c.Kind = lca.KindGaussian
	model, err := lca.Fit(ctx, x, c)
	if err != nil {
		return err
	}
	if err := whiten(ctx, cluster, input, output, features, model); err != nil {
		return err
	}
	features, y, err := rowsOf(ctx, cluster, output, "y")
	if err != nil {
		return err
	}
	_, dim := y.Dims()
	for j := range dim {
		fmt.Printf("%s[%d]: mean square %.2f\n", features.Names[0][:1], j, mat.Dot(y.ColView(j), y.ColView(j))/float64(y.RawMatrix().Rows))
	}
	return nil
}

// open returns a source of all that a topic holds now, as records.
func open(ctx context.Context, cluster *kafkaconn.Cluster, topic string) (*source.Kafka, error) {
	partitions, err := source.Partitions(ctx, cluster, topic)
	if err != nil {
		return nil, err
	}
	start, err := source.ListOffsets(ctx, cluster, partitions, source.Earliest)
	if err != nil {
		return nil, err
	}
	end, err := source.ListOffsets(ctx, cluster, partitions, source.Latest)
	if err != nil {
		return nil, err
	}
	decoder, err := format.NewDecoder(format.Config{})
	if err != nil {
		return nil, err
	}
	return source.OpenKafka(ctx, source.KafkaConfig{
		Cluster: cluster, Start: start, End: end, Decoder: decoder, Claim: source.Claim{Group: group, Generation: -1},
	})
}

// rowsOf reads the rows of a topic: all numeric columns, or those that are named.
func rowsOf(ctx context.Context, cluster *kafkaconn.Cluster, topic string, columns ...string) (features minibatch.Features, x *mat.Dense, err error) {
	k, err := open(ctx, cluster, topic)
	if err != nil {
		return features, nil, err
	}
	defer k.Close()
	var all []float64
	var rows minibatch.Rows
	for {
		batch, err := k.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			return features, mat.NewDense(len(all)/features.Dim(), features.Dim(), all), nil
		}
		if err != nil {
			return features, nil, err
		}
		for _, m := range batch.Messages {
			if m.Err != nil {
				return features, nil, m.Err
			}
			if features.Names == nil {
				if features, err = minibatch.ResolveRecord(m.Record, columns); err != nil {
					return features, nil, err
				}
			}
			if err := features.Gather(&rows, m.Record); err != nil {
				return features, nil, err
			}
			all = append(all, rows.X...)
		}
		batch.Release()
	}
}

// whiten writes an output for each message of a topic, in one transaction per batch with the offsets.
func whiten(ctx context.Context, cluster *kafkaconn.Cluster, input, output string, features minibatch.Features, model *lca.Model) error {
	k, err := open(ctx, cluster, input)
	if err != nil {
		return err
	}
	defer k.Close()
	out, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: cluster, TransactionalID: group})
	if err != nil {
		return err
	}
	defer out.Close()
	loop := pipeline.Loop{
		Source: k, Sink: out, Stats: stats.NewStats(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Stage: &stage{topic: output, features: features, scorer: model.NewScorer(), dim: model.Dim, output: encode.NewOutput(encode.OutputConfig{Column: "y"})},
	}
	return loop.Run(ctx)
}

// stage whitens the messages of a batch, and has no state of its own.
type stage struct {
	topic    string
	features minibatch.Features
	rows     minibatch.Rows
	scorer   *lca.Scorer
	dim      int
	output   *encode.Output
	read     source.Offsets
}

func (s *stage) Do(_ context.Context, batch source.Batch) (pipeline.Work, error) {
	work := pipeline.Work{Commit: true}
	for _, m := range batch.Messages {
		if err := s.features.Gather(&s.rows, m.Record); err != nil {
			return work, err
		}
		y, score := make([]float32, s.rows.N*s.dim), make([]float32, s.rows.N)
		if !s.scorer.Score(y, score, s.rows.X, s.rows.N) {
			return work, fmt.Errorf("a row of %s@%d is whitened to numbers that are not finite", m.Partition, m.Offset)
		}
		value, err := s.output.Append(nil, m.Record, &encode.Whitened{K: s.dim, Y: y, Score: score, Invalid: s.rows.Invalid})
		if err != nil {
			return work, err
		}
		work.Messages = append(work.Messages, sink.Message{Topic: s.topic, Partition: m.Partition.ID, Key: m.Key, Value: value, Headers: []source.Header{{Key: "model", Value: []byte("own")}}})
	}
	return work, nil
}

func (s *stage) Kept() {}

func (s *stage) Rewind(context.Context) (source.Offsets, error) {
	return nil, errors.New("a put has failed, and this program does not try again")
}
