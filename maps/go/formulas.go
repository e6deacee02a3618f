package main

import (
	"math"
	"sort"
)

const (
	logitLimit  = 16
	priorEvents = 0.25
	tiny        = 1e-300
)

func clamp(x, lo, hi float64) float64 { return math.Min(math.Max(x, lo), hi) }

func logit(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

func sigmoid(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	if z >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}

// count returns the number of cuts that are at most x.
func count(cuts []float64, x float64) int {
	return sort.Search(len(cuts), func(i int) bool { return cuts[i] > x })
}

func (s steps) at(x float64) float64 { return s.Values[count(s.Cuts, x)] }

func (f fold) at(x float64) pair { return pair{f.Lower.at(x), f.Upper.at(x)} }

// between returns the knot to the left of x and the share of the way to the next; the end knot and 0 outside.
func between(knots []float64, x float64) (int, float64) {
	i := count(knots, x) - 1
	if i < 0 || i == len(knots)-1 {
		return max(i, 0), 0
	}
	half := 1.0
	if math.IsInf(knots[i+1]-knots[i], 0) { // the distance of two knots may overflow
		half = 0.5
	}
	return i, (half*x - half*knots[i]) / (half*knots[i+1] - half*knots[i])
}

func lines(knots, values []float64, x float64) float64 {
	i, t := between(knots, x)
	if t == 0 {
		return values[i]
	}
	return values[i] + t*(values[i+1]-values[i])
}

func (m *Map) cubics(x float64) float64 {
	i, t := between(m.Knots, x)
	if t == 0 {
		return m.Values[i]
	}
	low, high := m.Values[i], m.Values[i+1]
	bend := t * (1 - t) * (m.Rises[i]*(1-t) - m.Falls[i]*t)
	return clamp(low+(high-low)*t*t*(3-2*t)+bend, low, high)
}

func (m *Map) beta(x, u float64) float64 {
	z := x
	if !m.logOdds {
		z = logit(u)
	}
	if !m.isLogit {
		z = clamp(z, -logitLimit, logitLimit)
	}
	tail := math.Log1p(math.Exp(-math.Abs(z)))
	return sigmoid(m.A*(math.Min(z, 0)-tail) + m.B*(math.Max(z, 0)+tail) + m.C)
}

// bernstein is de Casteljau's algorithm.
func bernstein(coefficients []float64, u float64) float64 {
	row := append([]float64(nil), coefficients...)
	for n := len(row) - 1; n > 0; n-- {
		for i := 0; i < n; i++ {
			row[i] = (1-u)*row[i] + u*row[i+1]
		}
	}
	return row[0]
}

// chebyshev is Reinsch's recurrence from the nearer end.
func chebyshev(coefficients []float64, u float64) float64 {
	e, total, value, sign := math.Min(u, 1-u), 0.0, 1.0, 1.0
	step := -2 * e
	for _, c := range coefficients {
		total += sign * c * value
		value += step
		step -= 4 * e * value
		if u < 0.5 {
			sign = -sign
		}
	}
	return total
}

func (m *Map) scorePrior(p pair, x float64) float64 {
	middle := clamp(clamp(x, m.Least, m.Greatest), p.low, p.high)
	rarer := math.Max(math.Min(middle, 1-middle), tiny)
	width := priorEvents * (p.high - p.low)
	return (p.low*rarer + width*middle) / ((1-p.high+p.low)*rarer + width)
}

// cross merges the pairs of the folds that have observations.
func (m *Map) cross(x []float64) float64 {
	var all, holding []pair
	for k, f := range m.Folds {
		p := f.at(x[min(k, len(x)-1)])
		all = append(all, p)
		if len(f.Lower.Cuts)+len(f.Upper.Cuts) > 0 {
			holding = append(holding, p)
		}
	}
	if len(holding) == 0 {
		holding = all
	}
	return point(m.Point, holding)
}

// point is the probability of K pairs.
func point(rule string, pairs []pair) float64 {
	k := float64(len(pairs))
	positive, negative, brier, low, high := 1.0, 1.0, 0.0, 0.0, 0.0
	for _, p := range pairs {
		positive *= math.Pow(p.high, 1/k)
		negative *= math.Pow(1-p.low, 1/k)
		brier += p.high + 0.5*(p.low*p.low-p.high*p.high)
		low += p.low
		high += p.high
	}
	low, high = low/k, high/k
	switch rule {
	case "log-minimax":
		return positive / (negative + positive)
	case "brier-minimax":
		return brier / k
	case "self-consistent":
		if 1-high+low == 0 {
			return 0.5
		}
		return low / (1 - high + low)
	}
	return math.NaN()
}
