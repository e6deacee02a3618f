package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Lines are read: a line that begins with { is a map, any other holds scores, and is answered.
func main() {
	lines := bufio.NewReader(os.Stdin)
	var m *Map
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "{") {
			if m, err = New([]byte(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		} else if line != "" {
			var scores []float64
			for _, text := range strings.Fields(line) {
				score, _ := strconv.ParseFloat(text, 64)
				scores = append(scores, score)
			}
			fmt.Println(strconv.FormatFloat(m.At(scores...), 'g', -1, 64))
		} else if err != nil {
			return
		}
	}
}
