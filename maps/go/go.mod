module calibrationmap

go 1.21
