module ottla.example/grpc

go 1.21
