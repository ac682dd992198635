"""Where blocks of rows come from when they are not in memory: Parquet files, lazy tables, Dask."""
