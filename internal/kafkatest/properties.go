//go:build unix

package kafkatest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// serverProperties is a small KRaft node. What is not usual:
//   - log.cleaner.dedupe.buffer.size: the default of 128 MiB does not fit into a small heap;
//   - log.cleaner.backoff.ms: compaction within a test's patience;
//   - group.min.session.timeout.ms and transaction.abort…: so that tests of lost members and
//     abandoned transactions take a second, not ten;
//   - one partition for the internal topics: fewer files, and a quick start.
func serverProperties(j *javaNode, voters []string) string {
	n := len(voters)
	// No process takes over from a node by itself: Kafka's own session, so that a busy machine's pauses do
	// not fence it. A killed node registers again only when its session has ended.
	minISR, session := 1, 9000
	if n >= 3 {
		minISR, session = 2, 6000
	}
	listen := []string{"PLAINTEXT://" + local(j.port), "CONTROLLER://" + local(j.controller)}
	advertise, protocols := []string{listen[0]}, []string{"PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	for _, l := range j.listeners {
		listen = append(listen, l.Name+"://"+local(l.port))
		advertise = append(advertise, l.Name+"://"+local(l.advertised()))
		protocols = append(protocols, l.Name+":"+l.Protocol)
	}
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", j.id),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		"listeners=" + strings.Join(listen, ","),
		"advertised.listeners=" + strings.Join(advertise, ","),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=" + strings.Join(protocols, ","),
		"log.dirs=" + filepath.Join(j.dir, "data"),
		"auto.create.topics.enable=false",
		"num.partitions=1",
		fmt.Sprintf("default.replication.factor=%d", n),
		fmt.Sprintf("min.insync.replicas=%d", minISR),
		"offsets.topic.num.partitions=1",
		fmt.Sprintf("offsets.topic.replication.factor=%d", n),
		"transaction.state.log.num.partitions=1",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", n),
		fmt.Sprintf("transaction.state.log.min.isr=%d", minISR),
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=500",
		"log.cleaner.dedupe.buffer.size=4194304",
		"log.cleaner.io.buffer.size=65536",
		"log.cleaner.backoff.ms=500",
		"num.network.threads=2",
		"num.io.threads=4",
		"broker.heartbeat.interval.ms=500",
		fmt.Sprintf("broker.session.timeout.ms=%d", session),
		"initial.broker.registration.timeout.ms=120000",
		"controlled.shutdown.enable=true",
	}
	return strings.Join(lines, "\n") + "\n"
}

const log4j2XML = `<?xml version="1.0" encoding="UTF-8"?>
<Configuration>
  <Appenders>
    <Console name="stdout"><PatternLayout pattern="%d %p %m (%c{1})%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="stdout"/></Root>
  </Loggers>
</Configuration>
`

const log4j1Properties = `log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c{1})%n
`
