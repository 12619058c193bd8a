// Package snapshot encodes models as Arrow bytes that any Arrow reader opens, and decodes them: messages of a
// compacted Kafka topic, files, and the formats of other programs (npz, safetensors, ONNX, JSON).
//
// To publish a model, give the result of [Messages] to a sink. To read one, pass each message of the topic to
// [Assembler.Add] and call [Assembler.Newest]. For files, begin with [WriteFile] and [ReadFile].
//
// # Format 2
//
// A snapshot is up to five parts, each a table. A part is one Arrow IPC stream (uncompressed, one
// batch, end-of-stream mark), or, where it is larger than a chunk, several such streams with the
// same schema, to be concatenated by rows:
//
//	part "model", one row per direction; nothing is nullable
//	  kind        utf8
//	  index       int32                      position within the kind, from 0
//	  eigenvalue  float64                    e of parzen and gaussian rows; 0 elsewhere
//	  vector      FixedSizeList<float64, d>
//
//	  kind      rows   vector
//	  mean      1      μ
//	  whiten    d      rows of W: y = W(x−μ) is what transform applies
//	  parzen    d_P    columns of B_L, eigenvalue e < 1 of I_G C_L I_G, ascending (Proposition 1)
//	  gaussian  d_G    columns of B_G, eigenvalue e ≥ 1, ascending
//	  c_l       d      rows of C_L + νI (eq. 5); left out by a model that has none
//	  c_g       d      rows of C_G + ν_g I; left out together with c_l
//
//	part "neighbours"
//	  x           FixedSizeList<float32, d>  the centres of the Parzen part, x_j − μ
//
//	part "scores"
//	  score       float64                    −log p of each neighbour without itself, ascending; no rows where not known
//
//
//	part "recent", left out with factors where the last rows are not scored; see package recent
//	  number      float64                    centre d, scale d, means of z 3d, of x′ d, weights of the histograms of scores and of first scores
//
//	part "factors"
//	  factor      float32                    lower triangles, row by row: of z 3d(3d+1)/2, of v and of x′ d(d+1)/2 each
//
// All is in the units of the input; a constant column has weight 0. float64 values are exact.
// There is no clock in the bytes: the same model is the same bytes, so that the SHA-256 of the
// model part as one stream names it (Fingerprint). The time of a snapshot is the timestamp of
// its Kafka record.
//
// The schema of every chunk carries metadata, all of it text. Floats are the shortest decimal
// that reads back exactly, or NaN where not known yet:
//
//	lca.format                2
//	lca.part                  model | neighbours | scores | recent | factors
//	lca.model_id              snapshot.model_id
//	lca.model_version         rows learnt when the snapshot was taken; grows forever
//	lca.number                how many snapshots came before; decides the slot
//	lca.parent_version        version of the predecessor, 0 for the first
//	lca.d, lca.d_gaussian     columns, columns of B_G
//	lca.features              JSON array of d names, in order; list column v: "v[0]", "v[1]", …
//	lca.kind                  lca | lca_gauss | lca_gauss_red | gaussian
//	lca.metric                full | diagonal | isotropic | low_rank: the family of C_L
//	lca.kernel, lca.dof       gaussian | student; and the degrees of freedom of student, 0 for gaussian
//	lca.coordinates           aligned | components | symmetric: the rotation of W
//	lca.components            all | parzen | weighted: the part of the metric that W carries
//	lca.rows_seen             rows handed to the learner
//	lca.rows_learnt           rows that entered the statistics
//	lca.nll, lca.gaussian_nll running leave-one-out NLL of the model, and of a single Gaussian; nats/row
//	lca.gamma, lca.pass_rows  γ, n of γ^(B/n)
//	lca.nu, lca.nu_gaussian   ν and ν_g
//	lca.nu_unit               relative | absolute | covariance: what they are multiples of
//	lca.minibatch             B
//	lca.neighbours            rows of the part neighbours
//	lca.scores                rows of the part scores
//	lca.tail                  JSON {"u", "xi", "beta"}: the scores beyond their 90 % quantile u, see lca.Tail; null without scores
//	lca.recent                JSON {"learnt", "settled", "constant", "scores", "first", "tail", "turn", "accepted"}: what the parts recent and factors are of; left out without them
//	lca.choice                JSON {"rows", "candidates", "taken"}: what the data chose last; null before, see docs/wire-format.md
//	lca.effective_neighbours  mean exp(H(λ_i))
//	lca.drift                 largest principal angle to the previous reference, radians
//	lca.alarms, lca.gated_rows, lca.copies
//	lca.rows_wanted           rows that a first model takes, if there were fewer
//	lca.constant_columns      JSON array of column numbers
//	lca.input_offsets         JSON {"topic": {"partition": next offset}}
//	lca.producer              program and version that wrote it
//
// Readers ignore kinds, columns and keys that they do not know, and refuse a greater lca.format.
// A meaning, once given, does not change: a removed or redefined name raises lca.format. Every
// format ever written stays readable.
//
// In format 1 the neighbours were x_j, which float32 rounds where a column is far from 0, and lca.kernel and lca.dof were
// missing: all kernels were Gaussian. There were no scores: a row then has no probability.
//
// # Topic
//
// Messages encodes a snapshot as one message per chunk, to partition 0 of a compacted topic:
//
//	key      MODEL_ID/SLOT/PART/CHUNK     SLOT = lca.number mod keep, CHUNK from 0
//	value    the chunk, at most MaxChunk bytes
//	headers  content-type: application/vnd.apache.arrow.stream
//	         lca-model-id, lca-model-version
//	         lca-part: model | neighbours | scores | recent | factors
//	         lca-chunk: i/n               i from 0 as in the key, of n chunks of this part
//	         lca-crc32c                   of the value, Castagnoli, decimal
//
// So keep slots hold the last keep snapshots. A snapshot of fewer chunks than its slot's
// former owner deletes the surplus keys with tombstones. All of it is one transaction of the
// writer. An Assembler still trusts only versions whose chunks are all there.
//
// # File
//
// WriteFile writes the parts model, neighbours, scores, recent and factors, each as one stream, one after the other.
package snapshot
