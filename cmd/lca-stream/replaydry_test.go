package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// --dry-run says which offsets would be read, and reads and writes nothing.
func TestReplayDryRun(t *testing.T) {
	h := newHistory(t, kafkatest.Embedded)
	ends := h.ListOffsets(t, "events", -1, 1)
	out, err := exec.Command("lca-stream", "replay", "-c", h.config, "--dry-run", "--from", "0=3,2=0", "--to", "latest", "--model-id", "dry").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		fmt.Sprintf("events/0 from 3 to %d: %d messages", ends[0], ends[0]-3),
		fmt.Sprintf("events/2 from 0 to %d: %d messages", ends[2], ends[2]),
		fmt.Sprintf(`%d messages at most, for model "dry" by stochastic, into topic lca-snapshots`, ends[0]-3+ends[2]),
	} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "events/1") {
		t.Errorf("a partition that was not named would be read:\n%s", out)
	}
	if _, records := h.snapshots(t); records > 0 {
		t.Errorf("%d records were written", records)
	}
}
