package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// A model becomes the messages of a compacted topic, and an Assembler makes the same model of them.
func Example() {
	r := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(200, 2, nil)
	x.Apply(func(_, j int, _ float64) float64 { return float64(100*j) + r.NormFloat64() }, x)
	c := lca.DefaultConfig()
	c.Kind = lca.KindGaussian
	model, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		log.Fatal(err)
	}
	s := &snapshot.Snapshot{Model: model, ModelID: "machines", Version: 200, Features: []string{"temperature", "pressure"}}

	const keep = 16 // versions that the topic keeps
	messages, _, err := snapshot.Messages(s, "lca-snapshots", keep, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Printf("%s to partition %d\n", m.Key, m.Partition)
	}

	var a snapshot.Assembler
	for _, m := range messages {
		if err := a.Add(m.Key, m.Value, m.Headers, time.Time{}); err != nil {
			log.Fatal(err)
		}
	}
	got, ok := a.Newest("machines")
	fmt.Println(ok, got.Version, got.Features, mat.Equal(got.Model.W, model.W))
	// Output:
	// machines/0/model/0 to partition 0
	// machines/0/scores/0 to partition 0
	// machines/0/neighbours/0 to partition 0
	// true 200 [temperature pressure] true
}
