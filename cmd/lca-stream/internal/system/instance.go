package system

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// A member of the group with a name gets its partitions back at once when it restarts after a crash. Without a name
// the group first waits until the session of the dead member ends. No other living process may have the name, because
// it would lose its partitions to us. So the name is made of the host (in Kubernetes: the pod), of what is read, and
// of a number that no other process on this host has.

const (
	instanceMost = 64  // processes of one host and configuration that get a name
	hostMost     = 200 // characters of the host's name; Kafka takes 249 in all
)

// instance is the name under which this process is a member of its group.
type instance struct {
	id      string // "": it has none
	release func() // gives the name up
}

// newInstance derives the name of a member of a group. Learners by key are members of another group than
// transforms are: with one name for both a restarted process would take that of its learner for its transform.
func newInstance(c *config.Config, group string) (instance, error) {
	nothing := func() {}
	host, err := os.Hostname()
	if err != nil {
		return instance{release: nothing}, fmt.Errorf("the name of this host: %w", err)
	}
	brokers := slices.Sorted(slices.Values(c.Kafka.Brokers))
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", brokers, group, c.Source.Topic))
	base := legalName(host) + "-" + hex.EncodeToString(sum[:4])
	for slot := range instanceMost {
		id := fmt.Sprintf("%s-%d", base, slot)
		release, err := reserve("lca-stream/" + id)
		if err == nil {
			return instance{id: id, release: release}, nil
		}
		if !errors.Is(err, errReserved) {
			return instance{release: nothing}, err
		}
	}
	return instance{release: nothing}, fmt.Errorf("%d processes of this configuration run on this host already", instanceMost)
}

// errReserved is returned by reserve when a living process of this host has the name.
var errReserved = errors.New("the name is taken")

// legalName keeps the characters that Kafka allows in the name of a member.
func legalName(host string) string {
	legal := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, host)
	return legal[:min(len(legal), hostMost)]
}

// A transactional id names one piece of work: GROUP/TOPIC/ROLE/NAME. Read from the right it is unambiguous, because
// NAME is escaped and neither a topic nor a role has a slash; a group may have any. It begins with the group, because
// rights are granted by that prefix.
//
// The first release used GROUP-TOPIC-PARTITION and GROUP.learn-MODEL, which two pipelines could share: topic b-c of
// group a, and topic c of group a-b. Each id comes with its id of that release, which is taken over first, so that an
// owner of that release is fenced.

// TransformID returns the transactional id of the transform of one partition.
func TransformID(c config.Source, partition int32) (id, former string) {
	return workID(c, "transform", strconv.Itoa(int(partition))), fmt.Sprintf("%s-%s-%d", c.Group, c.Topic, partition)
}

// LearnID returns the transactional id of a model's writer: its learner, and commands that publish in its place.
func LearnID(c config.Source, modelID string) (id, former string) {
	return workID(c, "learn", modelID), c.Group + ".learn-" + modelID
}

// KeyedLearnID returns the transactional id of the learner of one partition's models.
func KeyedLearnID(c config.Source, modelID string, partition int32) string {
	return workID(c, "learners", fmt.Sprintf("%s/%d", modelID, partition))
}

func workID(c config.Source, role, name string) string {
	return c.Group + "/" + c.Topic + "/" + role + "/" + url.PathEscape(name)
}
