package main

import (
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// --from-history is refused where there is no history, and next to the other place to begin from.
func TestHistoryFlag(t *testing.T) {
	c := config.Default()
	if err := checkHistory(c); err != nil {
		t.Errorf("with the default start_offset: %v", err)
	}
	c.Source.StartOffset = config.StartLatest
	if err := checkHistory(c); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "source.start_offset is latest") {
		t.Errorf("with start_offset latest: %v", err)
	}
	keyed := config.Default()
	keyed.Model.By = modelkey.By{Place: modelkey.Key}
	if err := checkHistory(keyed); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "model.by is key") {
		t.Errorf("with a model for each value: %v", err)
	}
}

func TestHistoryFlags(t *testing.T) {
	p, _, stderr := inTest()
	if code := execute(t.Context(), p, []string{"learn", "-c", "none.yaml", "--from-history", "--from-snapshot", "7"}); code != exitUsage {
		t.Errorf("exit code %d with both flags:\n%s", code, stderr)
	}
}

// What is left at the end is said for each partition that has any, in order, and not for all of a thousand.
func TestLeftOf(t *testing.T) {
	lag := map[source.Partition]int64{{Topic: "t", ID: 10}: 3, {Topic: "t", ID: 2}: 5, {Topic: "t", ID: 1}: 0}
	if n, by := leftOf(lag); n != 8 || by != "2=5, 10=3" {
		t.Errorf("%d, %q", n, by)
	}
	for i := range int32(1000) {
		lag[source.Partition{Topic: "t", ID: i}] = 1
	}
	if n, by := leftOf(lag); n != 1000 || !strings.HasSuffix(by, ", and 960 more partitions") {
		t.Errorf("%d, %q", n, by)
	}
}
