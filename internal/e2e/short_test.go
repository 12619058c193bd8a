//go:build unix && !chaos

package e2e_test

import (
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// What is shorter in `make test` than in `make chaos`.
const failpointRounds = 1

func chosenSeed() uint64 { return uint64(time.Now().UnixNano()) }

func report(t *testing.T, kind kafkatest.Kind, seed uint64, what, faults, found string) {
	t.Helper()
	t.Logf("%s, %s, seed %d: %s: %s", what, kind, seed, faults, found)
}

// failpointsByKey is empty: 50 keys take a minute until they have models. TestKillNine kills programs with a model for each key.
var failpointsByKey map[string][]string
