package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// A transactional id names one piece of work: GROUP/TOPIC/ROLE/NAME. Read from the right it is unambiguous, because
// NAME is escaped and neither a topic nor a role has a slash; a group may have any. It begins with the group, because
// rights are granted by that prefix.
//
// The first release used GROUP-TOPIC-PARTITION and GROUP.learn-MODEL, which two pipelines could share: topic b-c of
// group a, and topic c of group a-b. Each id comes with its id of that release, which is taken over first, so that an
// owner of that release is fenced.

// transformID returns the transactional id of the transform of one partition.
func transformID(c config.Source, partition int32) (id, former string) {
	return workID(c, "transform", strconv.Itoa(int(partition))), fmt.Sprintf("%s-%s-%d", c.Group, c.Topic, partition)
}

// learnID returns the transactional id of a model's writer: its learner, and commands that publish in its place.
func learnID(c config.Source, modelID string) (id, former string) {
	return workID(c, "learn", modelID), c.Group + ".learn-" + modelID
}

// keyedLearnID returns the transactional id of the learner of one partition's models.
func keyedLearnID(c config.Source, modelID string, partition int32) string {
	return workID(c, "learners", fmt.Sprintf("%s/%d", modelID, partition))
}

func workID(c config.Source, role, name string) string {
	return c.Group + "/" + c.Topic + "/" + role + "/" + url.PathEscape(name)
}
