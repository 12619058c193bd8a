package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/doctor"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// -n counts messages: the marks that transactions leave at the end of a partition are none.
func TestInspectCountsMessages(t *testing.T) {
	h := newHistory(t, kafkatest.Embedded)
	newest := map[int32][]int64{}
	for _, r := range h.ReadCommitted(t, "events") {
		newest[r.Partition] = append(newest[r.Partition], r.Offset)
	}
	for _, n := range []int{1, 7, historyMessages, 1000} {
		out, err := exec.Command("lca-stream", "inspect", "events", "-c", h.config, "--json", "-n", strconv.Itoa(n)).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := map[int32][]int64{}
		for line := range strings.Lines(string(out)) {
			var v doctor.Verdict
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			got[v.Partition] = append(got[v.Partition], v.Offset)
		}
		for p, want := range newest {
			if want = want[max(0, len(want)-n):]; !slices.Equal(got[p], want) {
				t.Errorf("-n %d of partition %d: messages %v, want %v", n, p, got[p], want)
			}
		}
	}
	h.DeleteRecords(t, "events", h.ListOffsets(t, "events", -1, 0))
	p, stdout, stderr := inTest()
	if code := execute(t.Context(), p, []string{"init", "events", "--brokers", strings.Join(h.Addrs(), ",")}); code != app.ExitFailed || !strings.Contains(stderr.String(), "the topic is empty: the brokers have deleted what it had (") {
		t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
	}
}
