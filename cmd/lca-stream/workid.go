package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// A transactional id names one piece of work: GROUP/TOPIC/ROLE/NAME. Read from the right it has one meaning
// only, because NAME is escaped and neither a topic nor a role has a slash; a group may have any. It begins
// with the group, which is what rights are granted by.
//
// The first release wrote GROUP-TOPIC-PARTITION and GROUP.learn-MODEL, which two pipelines could have in
// common: topic b-c of group a, and topic c of group a-b. Each id comes with that one, which is taken
// over first, so that an owner of that release is fenced.

// transformID is of the transform of one partition.
func transformID(c config.Source, partition int32) (id, former string) {
	return workID(c, "transform", strconv.Itoa(int(partition))), fmt.Sprintf("%s-%s-%d", c.Group, c.Topic, partition)
}

// learnID is the transactional id of a model's writer: its learner, and commands that publish in its place.
func learnID(c config.Source, modelID string) (id, former string) {
	return workID(c, "learn", modelID), c.Group + ".learn-" + modelID
}

func workID(c config.Source, role, name string) string {
	return c.Group + "/" + c.Topic + "/" + role + "/" + url.PathEscape(name)
}
