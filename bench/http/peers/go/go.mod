module go_net_http

go 1.19
