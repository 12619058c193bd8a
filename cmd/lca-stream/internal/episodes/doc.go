// Package episodes holds `episodes list`, `show` and `accept`: what transforms have told of episodes on alarms.topic, each by its last
// record there, and the command by which a learner takes one for normal.
package episodes
