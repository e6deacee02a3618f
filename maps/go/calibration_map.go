// Calibration maps of streamcal, format 1 (docs/map_format.md), with the standard library alone.
//
// New reads a map, and At gives the probability of a score, or of one score a fold; NaN for a score outside the domain
// of the scale. Copy this file and formulas.go.
package main

import (
	"encoding/json"
	"fmt"
	"math"
)

type steps struct{ Cuts, Values []float64 }

type fold struct{ Lower, Upper steps }

type pair struct{ low, high float64 }

type scale struct {
	Kind         string
	Lo, Hi       *float64
	Knots, Ranks []float64
	Decreasing   bool
}

// Map is an immutable function from a score to a probability.
type Map struct {
	Format                          int `json:"streamcal_map"`
	Kind, Point                     string
	Scale                           scale
	Slope, Offset, A, B, C          float64
	Least, Greatest                 float64
	Weights, Slopes, Offsets        []float64
	Coefficients                    []float64
	Cuts, Knots, Values             []float64
	LogOdds                         []float64 `json:"log_odds"`
	Rises, Falls                    []float64
	Lower, Upper                    steps
	Folds                           []fold
	Spots                           struct{ First, Last, Values []float64 }
	lo, hi                          float64
	probabilities, isLogit, logOdds bool
}

// New reads a map.
func New(text []byte) (*Map, error) {
	m := &Map{hi: 1}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.Format != 1 {
		return nil, fmt.Errorf("not a calibration map of format 1")
	}
	m.isLogit = m.Scale.Kind == "logit"
	m.probabilities = m.isLogit || m.Scale.Kind == "probability"
	if m.isLogit || m.Scale.Kind == "interval" {
		m.lo, m.hi = bound(m.Scale.Lo, -1), bound(m.Scale.Hi, 1)
	} else if m.Scale.Kind != "probability" && m.Scale.Kind != "empirical-cdf" {
		return nil, fmt.Errorf("unknown kind of scale %q", m.Scale.Kind)
	}
	m.logOdds = m.isLogit || math.IsInf(m.hi-m.lo, 0)
	if math.IsNaN(m.at([]float64{0.5 * (math.Max(m.lo, -1) + math.Min(m.hi, 1))})) {
		return nil, fmt.Errorf("unknown kind of map %q, or point %q", m.Kind, m.Point)
	}
	return m, nil
}

func bound(value *float64, sign int) float64 {
	if value == nil {
		return math.Inf(sign)
	}
	return *value
}

// At returns the probability of one score, or of one score a fold.
func (m *Map) At(scores ...float64) float64 {
	x := make([]float64, len(scores))
	for k, s := range scores {
		inside := s >= -math.MaxFloat64 && s <= math.MaxFloat64
		if m.probabilities {
			inside = s >= 0 && s <= 1
		}
		if !inside {
			return math.NaN()
		}
		if m.Scale.Decreasing && m.probabilities {
			s = 1 - s
		} else if m.Scale.Decreasing {
			s = 0 - s
		}
		if i := count(m.Spots.First, s) - 1; k == 0 && i >= 0 && s <= m.Spots.Last[i] {
			return m.Spots.Values[i]
		}
		x[k] = m.coordinate(s)
	}
	return m.at(x)
}

func (m *Map) coordinate(s float64) float64 {
	switch m.Scale.Kind {
	case "logit":
		return clamp(logit(s), m.lo, m.hi)
	case "interval":
		return clamp(s, m.lo, m.hi)
	case "empirical-cdf":
		return lines(m.Scale.Knots, m.Scale.Ranks, s)
	}
	return s
}

func (m *Map) at(x []float64) float64 {
	u := (x[0] - m.lo) / (m.hi - m.lo)
	switch m.Kind {
	case "identity":
		if m.logOdds {
			return sigmoid(x[0])
		}
		return u
	case "sigmoid":
		return sigmoid(m.Slope*x[0] + m.Offset)
	case "sigmoids":
		p := 0.0
		for k, w := range m.Weights {
			p += w * sigmoid(m.Slopes[k]*x[0]+m.Offsets[k])
		}
		return math.Min(p, 1)
	case "beta":
		return m.beta(x[0], u)
	case "bernstein":
		return clamp(bernstein(m.Coefficients, u), 0, 1)
	case "bernstein-logistic":
		return sigmoid(bernstein(m.Coefficients, u))
	case "chebyshev":
		return clamp(chebyshev(m.Coefficients, u), 0, 1)
	case "steps":
		return steps{m.Cuts, m.Values}.at(x[0])
	case "lines":
		return lines(m.Knots, m.Values, x[0])
	case "log-odds-lines":
		return sigmoid(lines(m.Knots, m.LogOdds, x[0]))
	case "cubics":
		return m.cubics(x[0])
	case "interval":
		p := fold{m.Lower, m.Upper}.at(x[0])
		if m.Point == "score-prior" {
			return m.scorePrior(p, x[0])
		}
		return point(m.Point, []pair{p})
	case "cross-interval":
		return m.cross(x)
	}
	return math.NaN()
}
