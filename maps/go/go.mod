module calibrationmap

go 1.22
