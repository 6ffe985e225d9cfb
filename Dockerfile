# One image for every role; the command says which (see compose.yaml). Nothing is compiled: every dependency is a wheel.
FROM python:3.13-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app

# The dependencies first: they change less often than the program.
COPY requirements/app.txt requirements/app.txt
RUN pip install -r requirements/app.txt

# Editable, because the migrations stand beside the package.
COPY . .
RUN pip install --no-deps --editable . \
 && useradd --system --uid 10001 --no-create-home codemojex \
 && install -d -o codemojex -g codemojex /data

USER codemojex
ENV CODEMOJEX_DATA_DIR=/data \
    CODEMOJEX_LOG_FORMAT=json
VOLUME /data

ENTRYPOINT ["codemojex"]
CMD ["--help"]
