package kernel

// Scratch holds the buffers of [Update], [LSE] and [Project]. They grow once and are then reused, so that a call
// allocates nothing. A Scratch serves one call at a time.
type Scratch[T Float] struct {
	// Threads is how many goroutines a call may use, where there is enough to do; 0 means 1. It does not
	// change a bit of any result: work is split by index and combined in index order.
	Threads int

	f      *functions[T]
	zero   []T            // a panel row of zeros: the initial value of a product that is not added to anything
	spaces []workspace[T] // the buffers of each worker

	// The arguments of the current call.
	q    []T // queries, row by row
	rows int // number of queries
	pool *Neighbours[T]
	ex   Exclusion
	m    *Moments
	lse  []float64
	t    student[T] // where the kernels are t

	pull   []float64 // of Attract
	centre []T       // of Attract and Mean; nil where it is not asked for

	square   []float64    // of Mean
	marginal *Marginal[T] // of Mean

	// The results that an update keeps between its passes. Panels are as in [Neighbours].
	mean     []T       // ΛZ, as panels of coordinates
	residual []T       // Q − ΛZ, as panels of coordinates
	origin   []float64 // a zero for each coordinate of the kernel distance
	weights  []T       // λᵀ1 of each block of rows
	copies   []int     // number of near copies in each block of rows
	weight   []float64 // λᵀ1 of all rows
	weightT  []T       // weight in T, of the points in coords only
	points   int       // number of points in coords
	coords   []T       // panels of the points that weigh something: the pool's own, or kept
	kept     []T       // buffer of coords
	cov      []float64 // Ĉ, as panels of columns

	centred []T // of Scatter: foldRows rows less the centre, as panels
	one     []T // of addSums
	sums    []T // of addSums: a panel's, before they are added to float64 sums

	phase   phase
	workers workers
	threads int // number of goroutines of this call
}

// workspace is the buffers of one worker.
type workspace[T Float] struct {
	// The current block of rows of Λ.
	logits []T       // row r begins at r·ld
	rows   int       // number of rows
	length int       // length of a row: the pool's points, rounded up to whole panels
	ld     int       // distance between the beginnings of rows
	q      []T       // queries of the rows, at a stride that suits the cache
	norms  []float64 // |q|² of each query, over the coordinates of the kernel distance

	copied       []int // slots of the near copies of the last row that was looked at
	copiedLogits []T   // their logits

	// Its dense rows, which use all of their weights. They move up to the top of logits.
	dense   []int        // their indices in the minibatch
	factors []factors[T] // of their weights
	summed  int          // number of dense rows that sums already contains

	// Sparse rows, of this block and of earlier ones.
	lists    []list[T]
	closed   int     // number of lists that belong to earlier blocks
	index    []int32 // slots of all lists
	value    []T     // weights of all lists
	from, to int     // bounds of the newest list in index and value

	sums    []T       // λᵀ1 of the block
	entropy []float64 // (Σ_j w_ij t_ij)/Σ of each row
	sum     []T       // Σ_j w_ij z_j of the dense rows, as panels of blockRows rows
	totals  []T       // Σ_j w_ij of each row of Attract
	tile    []T       // a product of at most foldRows terms, before it is added to float64 sums
	scaled  []T       // foldRows rows of a panel, multiplied by their weights
}

// phase is a step of a call whose items workers share.
type phase uint8

const (
	phaseUpdate     phase = iota // items are blocks of rows
	phaseLSE                     // items are blocks of rows
	phaseMean                    // items are blocks of rows
	phaseCovariance              // items are panels of columns
)

func (s *Scratch[T]) do(worker, item int) {
	w := &s.spaces[worker]
	switch s.phase {
	case phaseUpdate:
		s.updateBlock(w, item)
	case phaseLSE:
		s.lseBlock(w, item)
	case phaseMean:
		s.meanBlock(w, item)
	case phaseCovariance:
		s.covariancePanel(w, item)
	}
}

func (s *Scratch[T]) finish(worker int) {
	if s.phase == phaseUpdate {
		s.sparseMeans(&s.spaces[worker])
	}
}

// run does the items 0 … n−1 of a phase on s.threads goroutines.
func (s *Scratch[T]) run(n int, ph phase) {
	s.phase = ph
	threads := max(1, min(s.threads, n))
	s.space(threads - 1)
	s.workers.run(s, n, threads)
}

// space returns the buffers of worker i, after making those of all workers up to it.
func (s *Scratch[T]) space(i int) *workspace[T] {
	for len(s.spaces) <= i {
		s.spaces = append(s.spaces, workspace[T]{})
	}
	return &s.spaces[i]
}

func (s *Scratch[T]) begin() {
	s.f = functionsOf[T]()
	if s.zero == nil {
		s.zero = grow(s.zero, panelWidth[T]())
		clear(s.zero)
	}
}

// share decides how many goroutines a call uses, given the multiply-adds per pair of a query and a point.
func (s *Scratch[T]) share(multiplied int) {
	const perPair = 16 // cost of a pair's exponential and sums, in multiply-adds
	s.threads = s.workers.threads(s.Threads, s.rows*s.pool.n*(multiplied+perPair))
}

// end forgets the call's arguments, so that a Scratch does not keep its caller's memory alive.
func (s *Scratch[T]) end() {
	s.q, s.pool, s.m, s.lse, s.coords, s.pull, s.centre, s.square, s.marginal = nil, nil, nil, nil, nil, nil, nil, nil, nil
	s.ex = Exclusion{}
}
