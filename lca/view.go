package lca

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// View returns the model with W in other coordinates or components; all else is shared. From one
// aligned model to another only the components change: the rotation O of y = O M^½(x−μ) is kept,
// so that y stays as steady as the aligned coordinates are. A model that is not aligned has no O,
// and its aligned view is the symmetric one.
func (m *Model) View(coords Coordinates, comps Components) (*Model, error) {
	if m.Coordinates == coords && m.Components == comps {
		return m, nil
	}
	v := *m
	v.Coordinates, v.Components = coords, comps
	v.W = whitening(m.BL, m.BG, coords, comps)
	if coords != CoordinatesAligned || m.Coordinates != CoordinatesAligned {
		return &v, nil
	}
	rotation, err := polar(m.W, whitening(m.BL, m.BG, CoordinatesSymmetric, m.Components))
	if err != nil {
		return nil, err
	}
	var w mat.Dense
	w.Mul(rotation, v.W)
	v.W = &w
	return &v, nil
}

// polar returns the orthogonal O that takes root to w best: O = UVᵀ of w rootᵀ = U S Vᵀ.
func polar(w, root *mat.Dense) (*mat.Dense, error) {
	var product mat.Dense
	linalg.Mul(&product, w, root.T())
	var svd mat.SVD
	if !svd.Factorize(&product, mat.SVDFull) {
		return nil, fmt.Errorf("lca: the singular values of a rotation did not converge: %w", errSingular)
	}
	var u, v, o mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	linalg.Mul(&o, &u, v.T())
	return &o, nil
}
